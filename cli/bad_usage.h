// What to say of a command line that is not understood.
#pragma once

#include <CLI/CLI.hpp>

namespace espalier {

// Prints why a command line was refused, with the nearest option or subcommand where one is
// misspelled. Returns the program's exit status: 0 for --help and --version, which CLI11 throws
// too, else 2.
int report_bad_usage(const CLI::App& app, const CLI::ParseError& error);

}  // namespace espalier
