#include "espalier/runtime/ahead.h"

#include <chrono>

#include "espalier/runtime/module_text.h"

namespace espalier {

Result<AheadProgram> compile_ahead(const Topology& topology, const Mesh& mesh,
                                   const ProgramSpec& spec) {
  if (mesh.size() != static_cast<int64_t>(topology.devices().size())) {
    return Failure{Code::kInvalidArgument, "the mesh " + mesh.to_string() + " needs " +
                                               std::to_string(mesh.size()) +
                                               " devices, but the topology has " +
                                               std::to_string(topology.devices().size())};
  }
  const auto start = std::chrono::steady_clock::now();
  std::vector<int64_t> ids;
  for (const DeviceDescription& device : topology.devices()) ids.push_back(device.id);
  const std::string module = module_text(spec, mesh);
  CompileReport report;
  report.module_bytes = module.size();
  report.digest = program_digest(module);
  Result<Executable> made =
      topology.compile(module, compile_options(topology.platform_name(), mesh, std::move(ids)));
  if (!made.ok()) {
    Failure failure = made.failure();
    // What a plugin calls an invalid argument is a module of ours, not the user's input.
    if (failure.code == Code::kInvalidArgument) failure.code = Code::kInternal;
    failure.message = "compiling '" + spec.name + "' failed: " + failure.message;
    return failure;
  }
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return AheadProgram{std::move(made).value(), std::move(report)};
}

}  // namespace espalier
