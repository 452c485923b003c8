// `espalier prepare DATASET|FILE... --out DIR`: fetches or makes a text and tokenizes it once.
#pragma once

#include <CLI/CLI.hpp>

namespace espalier {

// Adds the subcommand; its callback throws Error on failure.
void add_prepare(CLI::App& app);

}  // namespace espalier
