#include "espalier/optim/config.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace espalier {
namespace {

Failure wrong(const char* key, const std::string& value, const std::string& rule) {
  return {Code::kInvalidArgument, fmt::format("optimizer.{} = {}: {}", key, value, rule)};
}

Status check_name(const char* key, const std::string& value,
                  const std::vector<std::string>& names) {
  if (std::find(names.begin(), names.end(), value) != names.end()) return {};
  return wrong(key, "\"" + value + "\"",
               fmt::format("must be one of {}; did you mean {}?", fmt::join(names, ", "),
                           nearest_name(value, names)));
}

// NaN is in no range.
Status check_range(const char* key, double value, bool ok, const char* rule) {
  if (ok && std::isfinite(value)) return {};
  return wrong(key, fmt::format("{}", value), rule);
}

Status check_values(const OptimizerConfig& c) {
  const auto non_negative = [](const char* key, double value) {
    return check_range(key, value, value >= 0, "must be at least 0");
  };
  const auto fraction = [](const char* key, double value) {
    return check_range(key, value, value >= 0 && value < 1, "must be at least 0 and below 1");
  };
  ESPALIER_TRY(check_name("name", c.name, {"sgd", "adam", "adamw", "muon"}));
  ESPALIER_TRY(check_name("decay_parameters", c.decay_parameters, {"matrices", "all"}));
  ESPALIER_TRY(check_name("schedule", c.schedule, {"constant", "linear", "cosine", "wsd"}));
  ESPALIER_TRY(non_negative("learning_rate", c.learning_rate));
  ESPALIER_TRY(fraction("beta1", c.beta1));
  ESPALIER_TRY(fraction("beta2", c.beta2));
  ESPALIER_TRY(check_range("epsilon", c.epsilon, c.epsilon > 0, "must be above 0"));
  ESPALIER_TRY(fraction("momentum", c.momentum.value_or(0)));
  ESPALIER_TRY(non_negative("weight_decay", c.weight_decay));
  ESPALIER_TRY(non_negative("clip_norm", c.clip_norm));
  ESPALIER_TRY(non_negative("warmup_steps", static_cast<double>(c.warmup_steps)));
  ESPALIER_TRY(non_negative("decay_steps", static_cast<double>(c.decay_steps)));
  ESPALIER_TRY(non_negative("cooldown_steps", static_cast<double>(c.cooldown_steps)));
  ESPALIER_TRY(non_negative("init_learning_rate", c.init_learning_rate));
  ESPALIER_TRY(non_negative("min_learning_rate", c.min_learning_rate));
  ESPALIER_TRY(non_negative("adam_learning_rate", c.adam_learning_rate.value_or(0)));
  ESPALIER_TRY(non_negative("adam_weight_decay", c.adam_weight_decay));
  ESPALIER_TRY(non_negative("consistent_rms", c.consistent_rms));
  return check_range("newton_schulz_steps", static_cast<double>(c.newton_schulz_steps),
                     c.newton_schulz_steps >= 1, "must be at least 1");
}

Status check_schedule(const OptimizerConfig& c) {
  if (c.schedule == "constant") return {};
  if (c.decay_steps <= c.warmup_steps) {
    return wrong(
        "decay_steps", std::to_string(c.decay_steps),
        fmt::format("the {} schedule would end before it has warmed up; it counts the whole "
                    "schedule and must be above optimizer.warmup_steps = {}",
                    c.schedule, c.warmup_steps));
  }
  if (c.min_learning_rate > c.learning_rate) {
    return wrong("min_learning_rate", fmt::format("{}", c.min_learning_rate),
                 fmt::format("must not be above optimizer.learning_rate = {}, from which the "
                             "schedule goes down",
                             c.learning_rate));
  }
  const int64_t longest = c.decay_steps - c.warmup_steps;
  if (c.schedule == "wsd" && (c.cooldown_steps < 1 || c.cooldown_steps > longest)) {
    return wrong("cooldown_steps", std::to_string(c.cooldown_steps),
                 fmt::format("the wsd schedule needs from 1 to {} steps to decay in "
                             "(optimizer.decay_steps - optimizer.warmup_steps)",
                             longest));
  }
  return {};
}

// A value that the chosen optimizer would not look at is a mistake, not a detail.
Status check_unused(const OptimizerConfig& c) {
  const bool decays = c.name == "adamw" || c.name == "muon";
  if (!decays && c.weight_decay != 0) {
    return wrong("weight_decay", fmt::format("{}", c.weight_decay),
                 c.name + " decays no weights; use adamw or muon, or leave it 0");
  }
  if (c.momentum && (c.name == "adam" || c.name == "adamw")) {
    return wrong("momentum", fmt::format("{}", *c.momentum),
                 c.name + " has beta1 and beta2 instead; leave it out");
  }
  if (c.name != "muon") {
    const std::string rule = "is for muon, not for " + c.name + "; leave it out";
    if (c.adam_learning_rate) {
      return wrong("adam_learning_rate", fmt::format("{}", *c.adam_learning_rate), rule);
    }
    if (c.adam_weight_decay != 0) {
      return wrong("adam_weight_decay", fmt::format("{}", c.adam_weight_decay), rule);
    }
    if (c.consistent_rms != 0) {
      return wrong("consistent_rms", fmt::format("{}", c.consistent_rms), rule);
    }
  } else if (c.adam_learning_rate && c.learning_rate == 0) {
    return wrong("learning_rate", "0",
                 "must be above 0 with optimizer.adam_learning_rate, which follows its schedule");
  }
  if (c.name == "sgd" && c.nesterov.value_or(false) && c.momentum.value_or(0) == 0) {
    return wrong("nesterov", "true", "needs optimizer.momentum above 0");
  }
  return {};
}

}  // namespace

Status validate(const OptimizerConfig& config) {
  ESPALIER_TRY(check_values(config));
  ESPALIER_TRY(check_schedule(config));
  return check_unused(config);
}

}  // namespace espalier
