#include "espalier/train/compile_step.h"

#include <fmt/format.h>

#include <algorithm>

#include "espalier/runtime/ahead.h"
#include "espalier/train/machines.h"
#include "espalier/transform/cost.h"

namespace espalier {
namespace {

// A compiled step with what it came from.
struct Compiled {
  const Executable& executable;
  const Plugin& plugin;
  const ProgramSpec& spec;
  const CompileReport& report;
  std::string target, platform, device_kind;
};

Status read_memory(const Executable& executable, CompiledStep& step) {
  const Result<CompiledMemoryStats> stats = executable.memory_stats();
  if (!stats) {
    return stats.failure().code == Code::kUnimplemented ? Status() : stats.failure();
  }
  step.argument_bytes = stats->argument;
  step.output_bytes = stats->output;
  step.temporary_bytes = stats->temp;
  step.aliased_bytes = stats->alias;
  step.code_bytes = stats->generated_code;
  step.host_bytes =
      stats->host_argument + stats->host_output + stats->host_temp - stats->host_alias;
  // XLA for CPU leaves the temporaries out of its peak.
  step.peak_is_sum = step.platform == "cpu" || stats->peak.value_or(0) == 0;
  // XLA for GPU puts what waits in the host's memory into its peak.
  const int64_t sum = stats->argument + stats->output + stats->temp - stats->alias;
  step.peak_bytes = step.peak_is_sum ? sum : std::min(sum, *stats->peak);
  return {};
}

Status read_cost(const Executable& executable, CompiledStep& step) {
  if (const Result<NamedValues> analysis = executable.cost_analysis(); analysis.ok()) {
    if (const auto found = analysis->find("bytes accessed"); found != analysis->end()) {
      if (const auto* value = std::get_if<float>(&found->second)) {
        step.compiler_bytes_accessed = static_cast<double>(*value);
      }
    }
  }
  const Result<OptimizedProgram> program = executable.optimized_program();
  if (!program) {
    return program.failure().code == Code::kUnimplemented ? Status() : program.failure();
  }
  const Result<ProgramCost> cost = program_cost(*program, step.devices);
  if (!cost) return cost.failure().code == Code::kUnimplemented ? Status() : cost.failure();
  step.has_program_cost = true;
  step.bytes_accessed = cost->bytes_accessed;
  step.unknown_loops = cost->unknown_loops;
  step.collectives = cost->collectives;
  return {};
}

void set_bounds(DType dtype, CompiledStep& step) {
  const Machine* machine = find_machine(step.device_kind);
  if (machine == nullptr) return;
  step.memory_bytes = machine->memory_bytes;
  step.peak_flops = machine->flops(dtype);
  step.bounds.push_back({"FLOPs", step.step_flops_per_device() / step.peak_flops});
  if (!step.has_program_cost) return;
  step.bounds.push_back({"memory", step.bytes_accessed / machine->memory_bandwidth});
  double received = 0;
  for (const CollectiveCost& each : step.collectives) received += each.received_bytes;
  if (machine->interconnect > 0) {
    step.bounds.push_back({"interconnect", received / machine->interconnect});
  }
}

Result<CompiledStep> describe(const RunSetup& setup, const Compiled& from) {
  CompiledStep out;
  out.target = from.target;
  out.platform = from.platform;
  out.device_kind = from.device_kind;
  out.mesh = setup.mesh.to_string();
  out.devices = setup.mesh.size();
  out.parameters = num_parameters(setup.model->params());
  out.tokens = setup.tokens_per_step();
  out.compile_seconds = from.report.seconds;
  out.module_bytes = static_cast<int64_t>(from.report.module_bytes);
  out.state_bytes = argument_bytes(from.spec, setup.mesh);
  ESPALIER_TRY(read_memory(from.executable, out));
  ESPALIER_TRY(read_cost(from.executable, out));
  out.model_flops = train_flops_per_token(*setup.model, setup.config.data.seq_len) *
                    static_cast<double>(out.tokens);
  out.step_flops = matmul_flops(from.spec.function);
  set_bounds(setup.config.compute_dtype(), out);
  return out;
}

Status save_step(const RunSetup& setup, const Compiled& from, const std::filesystem::path& path) {
  ESPALIER_ASSIGN(SavedProgram saved, make_saved(from.executable, from.plugin, from.platform,
                                                 setup.mesh, from.report.digest));
  saved.name = path.string();
  saved.target = from.target;
  return saved.save(path);
}

Result<CompiledStep> finish(const RunSetup& setup, const Compiled& from,
                            const std::filesystem::path& save) {
  ESPALIER_ASSIGN(CompiledStep out, describe(setup, from));
  if (!save.empty()) ESPALIER_TRY(save_step(setup, from, save));
  return out;
}

Failure wrong_size(const RunSetup& setup, const NamedTopology& topology, size_t devices) {
  std::string axes;
  if (setup.mesh.axes().size() == 1) {
    axes = fmt::format("{}={}", setup.mesh.axes()[0].name, devices);
  } else {
    axes = fmt::format("data={}", devices);
  }
  return {Code::kInvalidArgument,
          fmt::format("the mesh {} has {} device{}, but {} has {}: let the product of the mesh's "
                      "axes be {}, for instance --set 'mesh.axes={{{}}}'",
                      setup.mesh.to_string(), setup.mesh.size(), setup.mesh.size() == 1 ? "" : "s",
                      topology.text, devices, devices, axes)};
}

}  // namespace

int64_t argument_bytes(const ProgramSpec& spec, const Mesh& mesh) {
  int64_t out = 0;
  for (const Argument& argument : spec.arguments) {
    const TensorType& type = argument.layout->type;
    const Dims dims = shard_dims(mesh, argument.layout->spec, type.dims, argument.name);
    out += num_elements(dims) * static_cast<int64_t>(byte_size(type.dtype));
  }
  return out;
}

Result<CompiledStep> compile_step(const RunSetup& setup,
                                  const std::optional<NamedTopology>& topology,
                                  const std::filesystem::path& save) {
  const ModelOnMesh on = setup.on_mesh();
  const auto spec_on = [&](const std::string& platform) {
    return train_step_spec(on, on.place(platform, setup.mesh), *setup.optimizer, *setup.layout,
                           step_options(setup.config));
  };
  if (topology) {
    ESPALIER_ASSIGN(const Topology devices, make_topology(*topology));
    if (static_cast<int64_t>(devices.devices().size()) != setup.mesh.size()) {
      return wrong_size(setup, *topology, devices.devices().size());
    }
    const ProgramSpec spec = spec_on(devices.platform_name());
    ESPALIER_ASSIGN(const AheadProgram made, compile_ahead(devices, setup.mesh, spec));
    return finish(setup,
                  {made.executable, devices.plugin(), spec, made.report, topology->text,
                   devices.platform_name(), devices.devices().front().kind},
                  save);
  }
  RuntimeOptions options = setup.config.runtime_options();
  options.program_cache.clear();  // compiled programs that come from a file may tell less
  ESPALIER_ASSIGN(const std::shared_ptr<Runtime> runtime, Runtime::create(std::move(options)));
  const std::string& platform = runtime->client().platform_name();
  const ProgramSpec spec = spec_on(platform);
  ESPALIER_ASSIGN(const Program program, compile(runtime, spec));
  return finish(setup,
                {program.executable(), runtime->client().plugin(), spec, program.report(), "local",
                 platform, runtime->devices().front()->kind()},
                save);
}

}  // namespace espalier
