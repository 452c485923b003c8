// Compiling a recipe's training step without running it, and what the compiler then knows of it.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "espalier/pjrt/named_topology.h"
#include "espalier/pjrt/program_cost.h"
#include "espalier/train/setup.h"

namespace espalier {

// A bound on the time of a step: what it stands on, and the seconds that it takes at least.
struct StepBound {
  std::string of;  // "FLOPs", "memory", "interconnect"
  double seconds = 0;
};

// Bytes and seconds; 0 where the platform or the table of machines does not tell.
struct CompiledStep {
  std::string target;       // "v5e:2x4", or "local"
  std::string platform;     // "cpu", "cuda", "tpu"
  std::string device_kind;  // "TPU v5 lite"
  std::string mesh;         // Mesh::to_string()
  int64_t devices = 0;
  int64_t parameters = 0;
  int64_t tokens = 0;  // of a step
  double compile_seconds = 0;
  int64_t module_bytes = 0;  // of the StableHLO text

  // Of each device, as the compiler planned them.
  int64_t argument_bytes = 0, output_bytes = 0, temporary_bytes = 0;
  int64_t aliased_bytes = 0;  // of the outputs, that take over arguments' memory
  int64_t code_bytes = 0;
  int64_t host_bytes = 0;    // in the host's memory: arguments, outputs and temporaries
  int64_t peak_bytes = 0;    // at once, code left out
  bool peak_is_sum = false;  // the plugin tells no (true) peak: all that is not aliased, together
  int64_t state_bytes = 0;   // parameters, optimizer arrays and batch by their layouts
  double memory_bytes = 0;   // that the device has, by publication

  // Matrix products' FLOPs of a step on all devices, counted in our own graph, where a scan's body
  // counts as often as it runs: as the model needs them (train_flops_per_token), and as the step
  // does them, with what is computed again.
  double model_flops = 0, step_flops = 0;
  double bytes_accessed = 0;           // of each device: see ProgramCost
  double compiler_bytes_accessed = 0;  // the compiler's own number, loops' bodies counted once
  int64_t unknown_loops = 0;
  std::vector<CollectiveCost> collectives;  // of each device
  bool has_program_cost = false;            // whether the optimized program could be read

  // From published peaks, where the device is known: no step is faster than the longest of these,
  // and no MFU higher than model_flops in that time. The bound of memory holds for this program as
  // far as no cache serves one op with what another has just read or written (see ProgramCost).
  double peak_flops = 0;  // of one device
  std::vector<StepBound> bounds;

  double step_flops_per_device() const { return step_flops / static_cast<double>(devices); }
  double arithmetic_intensity() const;  // step FLOPs of a device per byte accessed; 0: not known
  double seconds_bound() const;         // the longest bound; 0: not known
  double mfu_bound() const;             // 0: not known
  // Whether peak and code fit the device's memory; unset: it is not known.
  std::optional<bool> fits() const;
};
void to_json(nlohmann::json& json, const CompiledStep& step);
void from_json(const nlohmann::json& json, CompiledStep& step);

// For people: several lines.
std::string to_text(const CompiledStep& step);

// Of the arguments of a program on each device, by their layouts.
int64_t argument_bytes(const ProgramSpec& spec, const Mesh& mesh);

// "1.50 GiB", "12.3 ms".
std::string bytes_text(double bytes);
std::string seconds_text(double seconds);

// Compiles the step that `train` would run, for `topology` or, without one, on the recipe's own
// plugin, and keeps the executable in the file `save` unless that is empty. Nothing of the state is
// allocated. Throws Error as TrainStep::create does. kInvalidArgument, with the cure, where the
// mesh's size is not the number of devices. The compiler can abort the process: see run_in_child.
Result<CompiledStep> compile_step(const RunSetup& setup,
                                  const std::optional<NamedTopology>& topology,
                                  const std::filesystem::path& save);

}  // namespace espalier
