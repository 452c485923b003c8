// `espalier plot RUN... [--label NAME]... [--smooth W] -o loss.svg`
#pragma once

#include <CLI/CLI.hpp>

namespace espalier {

// Adds the subcommand; its callback throws Error when the picture cannot be drawn.
void add_plot(CLI::App& app);

}  // namespace espalier
