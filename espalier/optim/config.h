// OptimizerConfig: the [optimizer] table of a recipe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "espalier/config/fields.h"

namespace espalier {

struct OptimizerConfig {
  std::string name = "adamw";  // sgd, adam, adamw, muon
  double learning_rate = 1e-3;
  double beta1 = 0.9, beta2 = 0.999;  // Adam: averages of the gradient and of its square
  double epsilon = 1e-8;              // added to Adam's and Muon's denominators
  std::optional<double> momentum;     // unset: 0 for sgd, 0.95 for muon
  std::optional<bool> nesterov;       // unset: true for muon, false for the others
  // Each step takes learning_rate * weight_decay of a parameter away (adamw, muon).
  double weight_decay = 0;
  std::string decay_parameters = "matrices";  // or "all": biases and scales too
  double clip_norm = 0;                       // largest global norm of the gradient; 0: off

  // constant; linear, cosine: from the peak down to min_learning_rate at decay_steps; wsd (warm up,
  // stable, decay): at the peak until cooldown_steps before decay_steps, then linearly down.
  std::string schedule = "constant";
  int64_t warmup_steps = 0;  // linearly from init_learning_rate up to learning_rate
  // Steps of the whole schedule, its warm-up included; the last rate stays in force afterwards.
  int64_t decay_steps = 0;
  int64_t cooldown_steps = 0;  // wsd
  double init_learning_rate = 0;
  double min_learning_rate = 0;

  // Muon; the parameters that it leaves to Adam have a peak rate and a weight decay of their own.
  std::optional<double> adam_learning_rate;  // unset: learning_rate
  double adam_weight_decay = 0;
  // Scale of a matrix's update: 0: sqrt(max(1, fan_out / fan_in)); else sqrt(max(fan_in, fan_out))
  // times this, which makes updates as large as Adam's (0.2 is usual).
  double consistent_rms = 0;
  int64_t newton_schulz_steps = 5;
};

template <class V>
void bind(V& v, OptimizerConfig& c) {
  v("name", c.name, one_of({"sgd", "adam", "adamw", "muon"}));
  v("learning_rate", c.learning_rate, at_least(0));
  v("beta1", c.beta1, at_least(0), less_than(1));
  v("beta2", c.beta2, at_least(0), less_than(1));
  v("epsilon", c.epsilon, greater_than(0));
  v("momentum", c.momentum, at_least(0), less_than(1));
  v("nesterov", c.nesterov);
  v("weight_decay", c.weight_decay, at_least(0));
  v("decay_parameters", c.decay_parameters, one_of({"matrices", "all"}));
  v("clip_norm", c.clip_norm, at_least(0));
  v("schedule", c.schedule, one_of({"constant", "linear", "cosine", "wsd"}));
  v("warmup_steps", c.warmup_steps, at_least(0));
  v("decay_steps", c.decay_steps, at_least(0));
  v("cooldown_steps", c.cooldown_steps, at_least(0));
  v("init_learning_rate", c.init_learning_rate, at_least(0));
  v("min_learning_rate", c.min_learning_rate, at_least(0));
  v("adam_learning_rate", c.adam_learning_rate, at_least(0));
  v("adam_weight_decay", c.adam_weight_decay, at_least(0));
  v("consistent_rms", c.consistent_rms, at_least(0));
  v("newton_schulz_steps", c.newton_schulz_steps, at_least(1));
}

// Checks every value alone and all together, so that a config made without a recipe is checked too.
// kInvalidArgument names the key ("optimizer.decay_steps") and what it must be.
Status validate(const OptimizerConfig& config);

}  // namespace espalier
