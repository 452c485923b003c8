// Loss curves of runs as an SVG picture, drawn by gnuplot as a child process.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "espalier/base/error.h"

namespace espalier {

// Draws the training and validation loss of each run's metrics.jsonl over its steps, one color a
// run, and replaces `out` atomically. A run is named in the legend by its folder's name. Failures:
// no runs given (kInvalidArgument), a run without metrics.jsonl (kNotFound), no logged steps or no
// gnuplot on this machine (kFailedPrecondition), gnuplot's own refusal (kInternal).
Status plot_runs(const std::vector<std::filesystem::path>& runs, const std::filesystem::path& out);

// The same with another program in gnuplot's place; for tests.
Status plot_runs(const std::vector<std::filesystem::path>& runs, const std::filesystem::path& out,
                 const std::string& gnuplot);

}  // namespace espalier
