// `espalier verify`.
#pragma once

namespace CLI {
class App;
}

namespace espalier {

// Adds the subcommand; its callback throws Error on failure.
void add_verify(CLI::App& app);

}  // namespace espalier
