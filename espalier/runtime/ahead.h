// Compiling for devices that need not be here.
#pragma once

#include "espalier/pjrt/topology.h"
#include "espalier/runtime/program.h"

namespace espalier {

struct AheadProgram {
  Executable executable;
  CompileReport report;
};

// Compiles what compile(runtime, spec) would for a runtime with this mesh on the topology's
// devices, taken in the plugin's order. Throws Error as it does. kInvalidArgument where the mesh's
// size is not the number of devices. The compiler can abort the process: see run_in_child.
Result<AheadProgram> compile_ahead(const Topology& topology, const Mesh& mesh,
                                   const ProgramSpec& spec);

}  // namespace espalier
