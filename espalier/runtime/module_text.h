// What is handed to a compiler for a ProgramSpec: the module's text and the options, the same
// whether the devices are here or not.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "espalier/pjrt/compile_options.h"
#include "espalier/runtime/program.h"

namespace espalier {

// StableHLO text with the mesh and every sharding. Throws Error where layouts and function do not
// fit together or a dim is not divided evenly.
std::string module_text(const ProgramSpec& spec, const Mesh& mesh);

// `device_ids`: of the mesh's devices, row-major.
CompileOptions compile_options(std::string_view platform, const Mesh& mesh,
                               std::vector<int64_t> device_ids);

// SHA-256 in hexadecimal of the module's text: equal for equal programs on equal meshes.
std::string program_digest(std::string_view module);

}  // namespace espalier
