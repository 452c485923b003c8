// A Plan as text and JSON.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "espalier/train/plan.h"
#include "espalier/train/progress.h"

namespace espalier {
namespace {

std::string mesh_text(const PlannedStep& step) {
  std::string out;
  for (const auto& [name, size] : step.mesh) {
    out += fmt::format("{}{}={}", out.empty() ? "" : " ", name, size);
  }
  return out.empty() ? "one device" : out;
}

std::string remat_text(const PlannedStep& step) {
  std::string out = step.remat;
  if (!step.remat_names.empty()) out = fmt::format("{}", fmt::join(step.remat_names, "+"));
  return out + (step.offload ? ", offload" : "");
}

std::string bound_text(const StepBound& bound) {
  return bound.of.empty() ? "not known"
                          : fmt::format("{} ({})", seconds_text(bound.seconds), bound.of);
}

std::string memory_text(const PlannedStep& step) {
  std::string out = bytes_text(step.peak_bytes());
  if (step.host_bytes > 0) out += " + host " + bytes_text(step.host_bytes);
  return out;
}

// Cells in columns as wide as their widest.
std::string table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string out;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) line += fmt::format("  {:<{}}", row[i], widths[i]);
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

std::string set_arguments(const Plan& plan, const PlannedStep& step) {
  std::string out;
  for (const std::string& set : planned_overrides(plan.config, step)) {
    const bool quoted = set.find_first_of(" {}[]\"") != std::string::npos;
    out += fmt::format("{}--set {}{}{}", out.empty() ? "" : " ", quoted ? "'" : "", set,
                       quoted ? "'" : "");
  }
  return out;
}

std::string checked_text(const Plan& plan, const std::vector<CheckedStep>& checked) {
  std::vector<std::vector<std::string>> rows = {
      {"", "peak predicted", "compiled", "error", "step predicted", "compiled", "took"}};
  std::string failures;
  for (size_t i = 0; i < checked.size(); ++i) {
    const PlannedStep& step = plan.steps[i];
    if (!checked[i].compiled) {
      failures += fmt::format("  {} could not be compiled: {}\n", i + 1, checked[i].failure);
      continue;
    }
    const CompiledStep& real = *checked[i].compiled;
    const double seconds = real.seconds_bound();
    rows.push_back({std::to_string(i + 1), bytes_text(step.peak_bytes()),
                    bytes_text(static_cast<double>(real.peak_bytes)),
                    fmt::format("{:+.1f}%", 100 * memory_error(step, real)),
                    bound_text(step.bound()), seconds > 0 ? seconds_text(seconds) : "not known",
                    seconds_text(real.compile_seconds)});
  }
  std::string out = "compiled\n";
  if (rows.size() > 1) out += table(rows);
  return out + failures;
}

nlohmann::json json_of(const Plan& plan, const PlannedStep& step) {
  nlohmann::json mesh = nlohmann::json::object(), bounds = nlohmann::json::object();
  for (const auto& [name, size] : step.mesh) mesh[name] = size;
  for (const StepBound& bound : step.bounds) bounds[bound.of] = bound.seconds;
  nlohmann::json collectives = nlohmann::json::array();
  for (const CollectiveCost& c : step.collectives) {
    collectives.push_back({{"kind", c.kind},
                           {"group_size", c.group_size},
                           {"count", c.count},
                           {"bytes", c.bytes},
                           {"received_bytes", c.received_bytes}});
  }
  const StepBound bound = step.bound();
  const auto known = [](double value) { return value > 0 ? nlohmann::json(value) : nullptr; };
  return {{"mesh", std::move(mesh)},
          {"remat", step.remat},
          {"remat_names", step.remat_names},
          {"offload", step.offload},
          {"accumulate", step.accumulate},
          {"batch_size", step.batch_size},
          {"argument_bytes", step.argument_bytes},
          {"temporary_bytes", step.temporary_bytes},
          {"peak_bytes", step.peak_bytes()},
          {"host_bytes", step.host_bytes},
          {"step_flops_per_device", step.step_flops},
          {"bytes_accessed", step.bytes_accessed},
          {"collectives", std::move(collectives)},
          {"bounds", std::move(bounds)},
          {"bound", bound.of.empty() ? nlohmann::json() : nlohmann::json(bound.of)},
          {"seconds", known(bound.seconds)},
          {"mfu", known(step.mfu)},
          {"set", planned_overrides(plan.config, step)}};
}

}  // namespace

double memory_error(const PlannedStep& planned, const CompiledStep& compiled) {
  if (compiled.peak_bytes <= 0) return 0;
  return planned.peak_bytes() / static_cast<double>(compiled.peak_bytes) - 1;
}

std::string to_text(const Plan& plan, const std::vector<CheckedStep>& checked, size_t limit) {
  std::string out = fmt::format(
      "{} parameters, {} tokens a step, for {} ({} x {}{})\n",
      format_count(static_cast<double>(plan.parameters)), plan.tokens, plan.target.text,
      plan.target.devices, plan.target.device_kind,
      plan.memory_bytes > 0 ? ", " + bytes_text(plan.memory_bytes) + " each" : std::string());
  std::vector<std::vector<std::string>> rows = {
      {"", "mesh", "remat", "accumulate x batch", "peak of a device", "step", "MFU"}};
  const size_t shown = std::min(limit, plan.steps.size());
  for (size_t i = 0; i < shown; ++i) {
    const PlannedStep& step = plan.steps[i];
    rows.push_back({std::to_string(i + 1), mesh_text(step), remat_text(step),
                    fmt::format("{} x {}", step.accumulate, step.batch_size), memory_text(step),
                    bound_text(step.bound()),
                    step.mfu > 0 ? fmt::format("{:.1f}%", 100 * step.mfu) : ""});
  }
  out += table(rows);
  if (shown < plan.steps.size()) {
    out += fmt::format("  and {} more: --limit {}\n", plan.steps.size() - shown, plan.steps.size());
  }
  if (plan.too_large > 0) {
    out += fmt::format(
        "{} more pair{} of mesh and rematerialization do{} not fit {:.0f}% of the "
        "memory\n",
        plan.too_large, plan.too_large == 1 ? "" : "s", plan.too_large == 1 ? "es" : "",
        100 * kPlannedShare);
  }
  if (plan.not_split > 0) {
    out += fmt::format("{} mesh{} cannot split the model or the batch: {}\n", plan.not_split,
                       plan.not_split == 1 ? "" : "es", plan.why_not_split);
  }
  if (!checked.empty()) out += checked_text(plan, checked);
  const std::string arguments = set_arguments(plan, plan.steps.front());
  return out +
         (arguments.empty() ? "the first is the recipe as it stands" : "the first: " + arguments);
}

std::string nothing_fits(const Plan& plan) {
  if (!plan.least) {
    return fmt::format("no mesh of {} devices splits the model and its batch: {}",
                       plan.target.devices, plan.why_not_split);
  }
  return fmt::format(
      "nothing fits the {} of a {}. What comes nearest needs {}: mesh {}, accumulate x batch {} x "
      "{}, remat {}. Plan for more devices or larger ones, for shorter rows (data.seq_len), or for "
      "an optimizer with less state",
      bytes_text(plan.memory_bytes), plan.target.device_kind, bytes_text(plan.least->peak_bytes()),
      mesh_text(*plan.least), plan.least->accumulate, plan.least->batch_size,
      remat_text(*plan.least));
}

nlohmann::json to_json(const Plan& plan, const std::vector<CheckedStep>& checked) {
  nlohmann::json steps = nlohmann::json::array();
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    nlohmann::json step = json_of(plan, plan.steps[i]);
    if (i < checked.size() && checked[i].compiled) {
      step["compiled"] = *checked[i].compiled;
      step["memory_error"] = memory_error(plan.steps[i], *checked[i].compiled);
    } else if (i < checked.size()) {
      step["not_compiled"] = checked[i].failure;
    }
    steps.push_back(std::move(step));
  }
  return {{"target", plan.target.text},
          {"platform", plan.target.platform},
          {"device_kind", plan.target.device_kind},
          {"devices", plan.target.devices},
          {"parameters", plan.parameters},
          {"tokens", plan.tokens},
          {"model_flops", plan.model_flops},
          {"memory_bytes", plan.memory_bytes},
          {"steps", std::move(steps)},
          {"too_large", plan.too_large},
          {"least", plan.least ? json_of(plan, *plan.least) : nlohmann::json()},
          {"not_split", plan.not_split},
          {"why_not_split", plan.why_not_split}};
}

}  // namespace espalier
