// espalier plan: meshes, rematerializations and microbatches that fit a machine, by predicted time.
#pragma once

namespace CLI {
class App;
}

namespace espalier {

void add_plan(CLI::App& app);

}  // namespace espalier
