#include "espalier/runtime/module_text.h"

#include "espalier/base/sha256.h"
#include "espalier/transform/module.h"

namespace espalier {

std::string module_text(const ProgramSpec& spec, const Mesh& mesh) {
  if (spec.arguments.size() != spec.function.params.size() ||
      spec.results.size() != spec.function.results.size()) {
    throw Error("[compile] '" + spec.name + "' needs a layout for each of " +
                std::to_string(spec.function.params.size()) + " arguments and " +
                std::to_string(spec.function.results.size()) + " results");
  }
  ModuleOptions options;
  options.name = spec.name;
  options.mesh = mesh;
  options.rules = spec.rules;
  for (size_t i = 0; i < spec.arguments.size(); ++i) {
    const ArrayLayout& layout = *spec.arguments[i].layout;
    if (layout.type != spec.function.params[i].type()) {
      throw Error("[compile] argument '" + spec.arguments[i].name + "' is " +
                  to_string(layout.type) + ", but the function takes " +
                  to_string(spec.function.params[i].type()));
    }
    shard_dims(mesh, layout.spec, layout.type.dims, "argument '" + spec.arguments[i].name + "'");
    options.in_specs.push_back(layout.spec);
  }
  options.out_specs.assign(spec.results.begin(), spec.results.end());
  options.donated = spec.donated;
  return to_stablehlo(spec.function, options);
}

CompileOptions compile_options(std::string_view platform, const Mesh& mesh,
                               std::vector<int64_t> device_ids) {
  CompileOptions options;
  options.num_partitions = mesh.size();
  options.device_ids = std::move(device_ids);
  if (platform == "cpu" && options.num_partitions > 1) {
    // XLA ends the process when a device has waited 40 s for the others at a collective. Virtual
    // devices share a few cores, and a large step can keep them apart for longer than that.
    options.overrides = {{"xla_cpu_collective_call_warn_stuck_seconds", int64_t{300}},
                         {"xla_cpu_collective_call_terminate_timeout_seconds", int64_t{1800}},
                         {"xla_cpu_collective_timeout_seconds", int64_t{1800}}};
  }
  return options;
}

std::string program_digest(std::string_view module) { return sha256_hex(module); }

}  // namespace espalier
