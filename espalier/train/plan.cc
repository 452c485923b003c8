#include "espalier/train/plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <tuple>

#include "espalier/pjrt/gpu_targets.h"
#include "espalier/train/machines.h"
#include "espalier/train/plan_candidates.h"
#include "espalier/train/plan_cost.h"
#include "espalier/transform/cost.h"
#include "espalier/transform/simplify.h"

namespace espalier {
namespace {

// Bytes/s of the bus between a device and its host, one way. NVIDIA's data sheets: PCIe 4.0 x16
// for A100, 5.0 for H100 and H200. No number of a TPU's is published: counted as PCIe 4.0 x16.
double host_link(const std::string& device_kind) {
  const bool fifth = device_kind.find("H100") != std::string::npos ||
                     device_kind.find("H200") != std::string::npos;
  return fifth ? 64e9 : 32e9;
}

// What planned steps have in common.
class Planner {
 public:
  static Result<Planner> create(const RunConfig& config, const PlanTarget& target) {
    // The mesh is what is looked for: a recipe's own must not stand in the way.
    RunConfig flat = config;
    for (auto& [name, size] : flat.mesh.axes) size = 1;
    ESPALIER_ASSIGN(RunSetup setup, set_up_step(flat));
    return Planner(std::move(setup), target);
  }

  const RunSetup& setup() const { return setup_; }
  double model_flops() const { return model_flops_; }

  // Throws Error where the mesh does not divide the model or the batch.
  PlannedStep predict(const RunConfig& config) const {
    const Mesh mesh = config.make_mesh();
    const ShardingRules rules = config.make_rules();
    const StateLayout layout(setup_.model->params(), *setup_.optimizer, rules, mesh);
    const ModelOnMesh on{*setup_.model, rules, config.compute_dtype(), config.remat_policy()};
    const ProgramSpec spec = train_step_spec(on, on.place(target_.platform, mesh),
                                             *setup_.optimizer, layout, step_options(config));
    PlannedStep out;
    out.mesh = config.mesh.axes;
    out.remat = config.train.remat;
    out.remat_names = config.train.remat_names;
    out.offload = config.train.offload;
    out.accumulate = config.train.accumulate;
    out.batch_size = config.data.batch_size;
    out.argument_bytes = argument_bytes(spec, mesh);

    std::vector<PartitionSpec> in;
    for (const Argument& argument : spec.arguments) in.push_back(argument.layout->spec);
    const std::vector<std::optional<PartitionSpec>> results(spec.results.begin(),
                                                            spec.results.end());
    const planning::Graph graph = planning::make_graph(simplify(spec.function));
    const planning::Splits splits(graph, mesh, rules, in, results);
    planning::GraphCost cost =
        graph_cost(graph, splits, planning::traits_of(target_.platform, mesh.size()));
    out.temporary_bytes = cost.temporary_bytes;
    out.host_bytes = cost.host_bytes;
    out.step_flops = cost.flops;
    out.bytes_accessed = cost.bytes_accessed;
    out.collectives = std::move(cost.collectives);
    set_bounds(config.compute_dtype(), out);
    return out;
  }

 private:
  Planner(RunSetup setup, const PlanTarget& target)
      : setup_(std::move(setup)),
        target_(target),
        model_flops_(train_flops_per_token(*setup_.model, setup_.config.data.seq_len) *
                     static_cast<double>(setup_.tokens_per_step())) {}

  void set_bounds(DType dtype, PlannedStep& step) const {
    const Machine* machine = target_.machine;
    if (machine == nullptr) return;
    const double peak = machine->flops(dtype);
    step.bounds = {{"FLOPs", step.step_flops / peak},
                   {"memory", step.bytes_accessed / machine->memory_bandwidth}};
    double received = 0;
    for (const CollectiveCost& each : step.collectives) received += each.received_bytes;
    if (machine->interconnect > 0) {
      step.bounds.push_back({"interconnect", received / machine->interconnect});
    }
    if (step.host_bytes > 0) {
      step.bounds.push_back({"host", 2 * step.host_bytes * static_cast<double>(step.accumulate) /
                                         host_link(target_.device_kind)});
    }
    step.mfu = model_flops_ / (static_cast<double>(target_.devices) * peak * step.bound().seconds);
  }

  RunSetup setup_;
  PlanTarget target_;
  double model_flops_;
};

double all_bounds(const PlannedStep& step) {
  double sum = 0;
  for (const StepBound& bound : step.bounds) sum += bound.seconds;
  return sum;
}

// By time; what overlaps least is slower of two with the same bound. Where no time is known, by
// work.
bool faster(const PlannedStep& a, const PlannedStep& b) {
  const auto key = [](const PlannedStep& s) {
    return std::tuple(s.bound().seconds, all_bounds(s), s.step_flops, s.bytes_accessed,
                      s.peak_bytes());
  };
  return key(a) < key(b);
}

bool fits(const PlannedStep& step, const Plan& plan) {
  return plan.memory_bytes <= 0 || step.peak_bytes() <= kPlannedShare * plan.memory_bytes;
}

// The step of a mesh and a rematerialization that accumulates least and fits, or the one that needs
// least memory; nothing where none can be made, with the reason.
std::optional<PlannedStep> least_accumulation(const Planner& planner, const Plan& plan,
                                              RunConfig config, std::string& why_not) {
  const int64_t rows = config.data.batch_size * config.train.accumulate;
  std::optional<PlannedStep> least;
  for (const int64_t accumulate : divisors(rows)) {
    config.train.accumulate = accumulate;
    config.data.batch_size = rows / accumulate;
    try {
      PlannedStep step = planner.predict(config);
      if (fits(step, plan)) return step;
      if (!least || step.peak_bytes() < least->peak_bytes()) least = std::move(step);
    } catch (const Error& error) {
      if (why_not.empty()) why_not = error.what();
    }
  }
  return least;
}

// What one mesh gives: of each rematerialization a step; none where the mesh splits the model or
// the batch unevenly.
struct OnMesh {
  std::vector<PlannedStep> steps;
  std::string why_not;
};

OnMesh plan_mesh(const Planner& planner, const Plan& plan, const NamedInts& mesh) {
  OnMesh out;
  for (const CandidateRemat& remat : candidate_remats(plan.config, plan.target.platform)) {
    RunConfig candidate = plan.config;
    candidate.mesh.axes = mesh;
    candidate.train.remat = remat.remat;
    candidate.train.remat_names = remat.names;
    candidate.train.offload = remat.offload;
    std::optional<PlannedStep> step = least_accumulation(planner, plan, candidate, out.why_not);
    if (!step) continue;
    // Without products that have batch dims, both policies of products keep the same.
    const bool same = std::any_of(out.steps.begin(), out.steps.end(), [&](const PlannedStep& s) {
      return s.accumulate == step->accumulate && s.offload == step->offload &&
             s.peak_bytes() == step->peak_bytes() && s.step_flops == step->step_flops &&
             s.bytes_accessed == step->bytes_accessed;
    });
    if (!same) out.steps.push_back(std::move(*step));
  }
  return out;
}

// All meshes, on as many threads as the machine has: tracing shares nothing.
std::vector<OnMesh> plan_meshes(const Planner& planner, const Plan& plan) {
  const std::vector<NamedInts> meshes = candidate_meshes(plan.config, plan.target.devices);
  std::vector<OnMesh> out(meshes.size());
  std::atomic<size_t> next = 0;
  const auto work = [&] {
    for (size_t i = next++; i < meshes.size(); i = next++) {
      try {
        out[i] = plan_mesh(planner, plan, meshes[i]);
      } catch (const std::exception& error) {
        out[i].why_not = error.what();
      }
    }
  };
  std::vector<std::jthread> threads;
  const size_t count = std::min<size_t>(std::thread::hardware_concurrency(), meshes.size());
  for (size_t i = 1; i < count; ++i) threads.emplace_back(work);
  work();
  threads.clear();
  return out;
}

Status check_devices(const Mesh& mesh, const PlanTarget& target) {
  if (mesh.size() == target.devices) return {};
  return Failure{Code::kInvalidArgument,
                 fmt::format("the mesh {} has {} devices, but {} has {}; change mesh.axes, or plan "
                             "without --as-is",
                             mesh.to_string(), mesh.size(), target.text, target.devices)};
}

}  // namespace

StepBound PlannedStep::bound() const {
  const auto longest =
      std::max_element(bounds.begin(), bounds.end(),
                       [](const auto& a, const auto& b) { return a.seconds < b.seconds; });
  return longest == bounds.end() ? StepBound{} : *longest;
}

Result<PlanTarget> plan_target(const NamedTopology& topology) {
  PlanTarget out;
  out.text = topology.text;
  out.platform = topology.plugin;
  out.devices = topology.num_chips;
  const std::string name = topology.text.substr(0, topology.text.find(':'));
  out.device_kind = out.platform == "tpu" ? "TPU " + name : gpu_target_device(name);
  out.machine = find_machine(out.device_kind);
  if (out.machine == nullptr) {
    return Failure{Code::kInvalidArgument,
                   fmt::format("topology '{}': its memory and speed are not known here, so nothing "
                               "can be planned for it; espalier compile still compiles for it",
                               topology.text)};
  }
  return out;
}

Result<Plan> make_plan(const RunConfig& config, const PlanTarget& target, bool as_it_stands) {
  ESPALIER_ASSIGN(const Planner planner, Planner::create(config, target));
  Plan plan;
  plan.config = config;
  plan.target = target;
  plan.parameters = num_parameters(planner.setup().model->params());
  plan.tokens = planner.setup().tokens_per_step();
  plan.model_flops = planner.model_flops();
  plan.memory_bytes = target.machine == nullptr ? 0 : target.machine->memory_bytes;
  std::vector<OnMesh> found;
  if (as_it_stands) {
    ESPALIER_TRY(check_devices(config.make_mesh(), target));
    found.push_back({{planner.predict(config)}, ""});
  } else {
    found = plan_meshes(planner, plan);
  }
  for (OnMesh& mesh : found) {
    if (mesh.steps.empty()) {
      ++plan.not_split;
      if (plan.why_not_split.empty()) plan.why_not_split = mesh.why_not;
    }
    for (PlannedStep& step : mesh.steps) {
      if (fits(step, plan)) {
        plan.steps.push_back(std::move(step));
        continue;
      }
      ++plan.too_large;
      if (!plan.least || step.peak_bytes() < plan.least->peak_bytes()) plan.least = std::move(step);
    }
  }
  std::stable_sort(plan.steps.begin(), plan.steps.end(), faster);
  return plan;
}

RunConfig planned_config(const RunConfig& config, const PlannedStep& step) {
  RunConfig out = config;
  out.mesh.axes = step.mesh;
  out.train.remat = step.remat;
  out.train.remat_names = step.remat_names;
  out.train.offload = step.offload;
  out.train.accumulate = step.accumulate;
  out.data.batch_size = step.batch_size;
  return out;
}

std::vector<std::string> planned_overrides(const RunConfig& config, const PlannedStep& step) {
  std::vector<std::string> axes, names;
  for (const auto& [name, size] : step.mesh) axes.push_back(fmt::format("{} = {}", name, size));
  for (const std::string& name : step.remat_names) names.push_back('"' + name + '"');
  std::vector<std::string> out;
  const auto set = [&](bool has, std::string value) {
    if (!has) out.push_back(std::move(value));
  };
  const TrainConfig& train = config.train;
  set(config.mesh.axes == step.mesh, fmt::format("mesh.axes={{{}}}", fmt::join(axes, ", ")));
  set(train.remat == step.remat, "train.remat=" + step.remat);
  set(train.remat_names == step.remat_names,
      fmt::format("train.remat_names=[{}]", fmt::join(names, ", ")));
  set(train.offload == step.offload, fmt::format("train.offload={}", step.offload));
  set(train.accumulate == step.accumulate, fmt::format("train.accumulate={}", step.accumulate));
  set(config.data.batch_size == step.batch_size,
      fmt::format("data.batch_size={}", step.batch_size));
  return out;
}

}  // namespace espalier
