// CompiledStep as numbers derived, JSON and text.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "espalier/train/compile_step.h"
#include "espalier/train/progress.h"

namespace espalier {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CollectiveCost, kind, group_size, count, bytes, received_bytes)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(StepBound, of, seconds)

namespace {

// The members that are numbers and texts: each is a key of the JSON object.
template <class Step, class Visit>
void for_each_member(Step& s, Visit visit) {
  visit("target", s.target);
  visit("platform", s.platform);
  visit("device_kind", s.device_kind);
  visit("mesh", s.mesh);
  visit("devices", s.devices);
  visit("parameters", s.parameters);
  visit("tokens", s.tokens);
  visit("compile_seconds", s.compile_seconds);
  visit("module_bytes", s.module_bytes);
  visit("argument_bytes", s.argument_bytes);
  visit("output_bytes", s.output_bytes);
  visit("temporary_bytes", s.temporary_bytes);
  visit("aliased_bytes", s.aliased_bytes);
  visit("code_bytes", s.code_bytes);
  visit("host_bytes", s.host_bytes);
  visit("peak_bytes", s.peak_bytes);
  visit("peak_is_sum", s.peak_is_sum);
  visit("state_bytes", s.state_bytes);
  visit("memory_bytes", s.memory_bytes);
  visit("model_flops", s.model_flops);
  visit("step_flops", s.step_flops);
  visit("bytes_accessed", s.bytes_accessed);
  visit("compiler_bytes_accessed", s.compiler_bytes_accessed);
  visit("unknown_loops", s.unknown_loops);
  visit("collectives", s.collectives);
  visit("has_program_cost", s.has_program_cost);
  visit("peak_flops", s.peak_flops);
  visit("bounds", s.bounds);
}

nlohmann::json number_or_null(double value) {
  return value > 0 ? nlohmann::json(value) : nlohmann::json();
}

std::string gib(int64_t bytes) { return bytes_text(static_cast<double>(bytes)); }

std::string tera(double flops) {
  return flops < 1e12 ? fmt::format("{:.4g} GFLOPs", flops / 1e9)
                      : fmt::format("{:.4g} TFLOPs", flops / 1e12);
}

void add_memory(const CompiledStep& s, std::string& out) {
  const auto line = [&](std::string_view name, const std::string& value) {
    out += fmt::format("  {:<12}{:>12}\n", name, value);
  };
  out += "memory of each device\n";
  line("arguments", gib(s.argument_bytes));
  line("outputs", gib(s.output_bytes));
  line("temporaries", gib(s.temporary_bytes));
  line("aliased", gib(s.aliased_bytes));
  line("code", gib(s.code_bytes));
  line("host", gib(s.host_bytes));
  line(s.peak_is_sum ? "sum" : "peak", gib(s.peak_bytes));
  if (const std::optional<bool> fits = s.fits()) {
    out += fmt::format("  {} the {} of a {}\n", *fits ? "fits" : "does NOT fit",
                       bytes_text(s.memory_bytes), s.device_kind);
  }
}

void add_collectives(const CompiledStep& s, std::string& out) {
  if (!s.has_program_cost) {
    out += "collectives: not known, the plugin does not show the optimized program\n";
    return;
  }
  if (s.collectives.empty()) {
    out += "collectives: none\n";
    return;
  }
  out += "collectives of each device, loops' bodies counted as often as they run\n";
  for (const CollectiveCost& c : s.collectives) {
    const std::string group =
        c.group_size > 0 ? fmt::format("among {}", c.group_size) : "between pairs";
    out += fmt::format("  {:<20}{:<15}{:>8.0f} times{:>14}\n", c.kind, group, c.count,
                       bytes_text(c.bytes));
  }
}

void add_cost(const CompiledStep& s, std::string& out) {
  out += fmt::format("FLOPs: the model's {}, the step's {}, {} on each device\n",
                     tera(s.model_flops), tera(s.step_flops), tera(s.step_flops_per_device()));
  if (s.has_program_cost) {
    out += fmt::format("GBs accessed: {:.4g} on each device", s.bytes_accessed / 1e9);
    if (s.compiler_bytes_accessed > 0) {
      out += fmt::format(" (the compiler counts loops' bodies once: {:.4g})",
                         s.compiler_bytes_accessed / 1e9);
    }
    out += fmt::format("\narithmetic intensity: {:.4g} FLOPs a byte\n", s.arithmetic_intensity());
    if (s.unknown_loops > 0) {
      out +=
          fmt::format("{} loop{} of unknown length: {} bod{} counted once\n", s.unknown_loops,
                      s.unknown_loops == 1 ? " is" : "s are",
                      s.unknown_loops == 1 ? "its" : "their", s.unknown_loops == 1 ? "y" : "ies");
    }
  }
  add_collectives(s, out);
  if (s.bounds.empty()) {
    out += fmt::format("no published peaks are known of '{}': no bounds\n", s.device_kind);
    return;
  }
  std::string parts;
  for (const StepBound& bound : s.bounds) {
    parts +=
        fmt::format("{}{} {}", parts.empty() ? "" : ", ", bound.of, seconds_text(bound.seconds));
  }
  out += fmt::format("by published peaks a step takes at least {} ({}); MFU at most {:.1f}%{}\n",
                     seconds_text(s.seconds_bound()), parts, 100 * s.mfu_bound(),
                     s.mfu_bound() > 1 ? ", since it counts attention over all pairs of positions "
                                         "and the kernel computes half of them"
                                       : "");
}

}  // namespace

std::string bytes_text(double bytes) {
  constexpr double kMib = 1024.0 * 1024.0;
  if (bytes < 10 * kMib) return fmt::format("{:.0f} KiB", bytes / 1024);
  if (bytes < 1024 * kMib) return fmt::format("{:.1f} MiB", bytes / kMib);
  return fmt::format("{:.2f} GiB", bytes / (1024 * kMib));
}

std::string seconds_text(double seconds) {
  return seconds < 1 ? fmt::format("{:.3g} ms", seconds * 1e3) : fmt::format("{:.3g} s", seconds);
}

double CompiledStep::arithmetic_intensity() const {
  return bytes_accessed > 0 ? step_flops_per_device() / bytes_accessed : 0;
}

double CompiledStep::seconds_bound() const {
  double most = 0;
  for (const StepBound& bound : bounds) most = std::max(most, bound.seconds);
  return most;
}

double CompiledStep::mfu_bound() const {
  const double seconds = seconds_bound();
  if (seconds <= 0 || peak_flops <= 0) return 0;
  return model_flops / (static_cast<double>(devices) * peak_flops * seconds);
}

std::optional<bool> CompiledStep::fits() const {
  if (memory_bytes <= 0) return std::nullopt;
  return static_cast<double>(peak_bytes + code_bytes) <= memory_bytes;
}

void to_json(nlohmann::json& json, const CompiledStep& step) {
  json = nlohmann::json::object();
  for_each_member(step, [&](const char* key, const auto& value) { json[key] = value; });
  json["step_flops_per_device"] = step.step_flops_per_device();
  json["arithmetic_intensity"] = number_or_null(step.arithmetic_intensity());
  json["seconds_bound"] = number_or_null(step.seconds_bound());
  json["mfu_bound"] = number_or_null(step.mfu_bound());
  const std::optional<bool> fits = step.fits();
  json["fits"] = fits ? nlohmann::json(*fits) : nlohmann::json();
}

void from_json(const nlohmann::json& json, CompiledStep& step) {
  for_each_member(step, [&](const char* key, auto& value) { json.at(key).get_to(value); });
}

std::string to_text(const CompiledStep& s) {
  std::string out = fmt::format(
      "{} parameters, {} tokens a step, for {} ({} x {}), mesh {}\ncompiled in {:.1f} s from {} of "
      "StableHLO\n",
      format_count(static_cast<double>(s.parameters)), s.tokens, s.target, s.devices, s.device_kind,
      s.mesh, s.compile_seconds, gib(s.module_bytes));
  add_memory(s, out);
  add_cost(s, out);
  out.pop_back();
  return out;
}

}  // namespace espalier
