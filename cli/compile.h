// espalier compile: what the compiler knows of a recipe's training step.
#pragma once

namespace CLI {
class App;
}

namespace espalier {

void add_compile(CLI::App& app);

}  // namespace espalier
