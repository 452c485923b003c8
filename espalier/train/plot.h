// Loss curves of runs as an SVG picture, drawn by gnuplot as a child process.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "espalier/base/error.h"

namespace espalier {

struct PlotOptions {
  // A name in the legend for each run, in their order; runs past the end of the list, and empty
  // names, have their folder's.
  std::vector<std::string> labels = {};
  // 0 to below 1: the training loss is drawn as its exponential moving average, each point
  // weighing this much of the one before it (as TensorBoard smooths), over itself in pale.
  double smooth = 0;
  std::string gnuplot = "gnuplot";  // the program that draws
};

// Draws the training and validation loss of each run's metrics.jsonl over its steps, one color a
// run: training as a line, pale where there are several runs, validation as a line with points.
// Replaces `out` atomically. Failures: no runs given, more labels than runs, a smoothing out of
// range (kInvalidArgument), a run without metrics.jsonl (kNotFound), no logged steps or no gnuplot
// on this machine (kFailedPrecondition), gnuplot's own refusal (kInternal).
Status plot_runs(const std::vector<std::filesystem::path>& runs, const std::filesystem::path& out,
                 const PlotOptions& options = PlotOptions());

}  // namespace espalier
