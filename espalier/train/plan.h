// Planning: which meshes, rematerializations and microbatches of a recipe fit a machine, and how
// long a step would take, told from sizes alone: nothing is compiled, and no plugin is needed for a
// named topology.
//
// Memory: arguments are exact by their layouts; temporaries are foretold from the traced step (see
// plan_splits.h, plan_buffers.h and plan_cost.h).
//
// Time: the longest of four bounds, as if each went on beside the others: FLOPs of products over
// the published peak, bytes accessed over the bandwidth of the device's memory, bytes received over
// that of its links, and bytes to and from the host over the bus (the roofline of Williams et al.
// 2009, with a roof for each way). So a step is never predicted slower than `compile` says it must
// be; it is slower in truth, by what does not overlap and by what products leave of the peak.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "espalier/pjrt/named_topology.h"
#include "espalier/train/compile_step.h"
#include "espalier/train/setup.h"

namespace espalier {

struct Machine;

// What is planned for.
struct PlanTarget {
  std::string text;         // "v5e:2x4", or "local"
  std::string platform;     // "cpu", "cuda", "tpu"
  std::string device_kind;  // "TPU v5e"
  int64_t devices = 1;
  const Machine* machine = nullptr;  // null where no numbers are known of it
};
// Needs no plugin. kInvalidArgument where the machine's numbers are not known.
Result<PlanTarget> plan_target(const NamedTopology& topology);

// One way to train the recipe, and what it needs of each device.
struct PlannedStep {
  NamedInts mesh;
  std::string remat;  // as train.remat
  std::vector<std::string> remat_names;
  bool offload = false;
  int64_t accumulate = 1, batch_size = 1;

  int64_t argument_bytes = 0;  // state, key and batch, exactly
  double temporary_bytes = 0, host_bytes = 0;
  double step_flops = 0;      // of matrix products
  double bytes_accessed = 0;  // see ProgramCost
  std::vector<CollectiveCost> collectives;
  std::vector<StepBound> bounds;  // none where the machine is not known
  double mfu = 0;                 // upper bound, in the predicted time; 0: not known

  double peak_bytes() const { return static_cast<double>(argument_bytes) + temporary_bytes; }
  StepBound bound() const;  // the longest; {"", 0} where none is known
};

struct Plan {
  RunConfig config;  // the recipe
  PlanTarget target;
  int64_t parameters = 0;
  int64_t tokens = 0;       // of a step
  double model_flops = 0;   // of a step, on all devices
  double memory_bytes = 0;  // of a device, by publication; 0: not known, everything fits
  // Those that fit, the fastest first; of each mesh and rematerialization the one that accumulates
  // least, since more takes longer.
  std::vector<PlannedStep> steps;
  int64_t too_large = 0;             // meshes × rematerializations that do not fit
  std::optional<PlannedStep> least;  // of those, the one that needs least
  int64_t not_split = 0;             // meshes that do not divide the model or the batch
  std::string why_not_split;         // of one of them
};

// The share of a device's memory that a step may be planned to take: what is left is for the
// program's code, for holes between buffers and for errors of the prediction.
inline constexpr double kPlannedShare = 0.95;

// The tokens of a step stay those of the recipe: accumulate × batch_size rows. `as_it_stands`: the
// recipe's own mesh, rematerialization and batch alone; kInvalidArgument where the mesh has another
// number of devices. Throws Error where the recipe itself is wrong, whatever the mesh. Uses all of
// the machine's threads until it returns.
Result<Plan> make_plan(const RunConfig& config, const PlanTarget& target,
                       bool as_it_stands = false);

// The recipe changed to a planned step.
RunConfig planned_config(const RunConfig& config, const PlannedStep& step);
// The same as arguments of --set: those that change the recipe.
std::vector<std::string> planned_overrides(const RunConfig& config, const PlannedStep& step);

// A planned step beside what the compiler made of it; where it made nothing, why.
struct CheckedStep {
  std::optional<CompiledStep> compiled;
  std::string failure;
};
// (predicted - compiled) / compiled, of a device's peak memory.
double memory_error(const PlannedStep& planned, const CompiledStep& compiled);

// For people: the first `limit` steps and those that were checked.
std::string to_text(const Plan& plan, const std::vector<CheckedStep>& checked, size_t limit);
nlohmann::json to_json(const Plan& plan, const std::vector<CheckedStep>& checked);
// Why nothing fits, and what would come nearest.
std::string nothing_fits(const Plan& plan);

}  // namespace espalier
