// Schedule: the learning rate of each step.
//
// With W = warmup_steps, T = decay_steps, C = cooldown_steps and rates init, peak and min:
//   t < W         init + (peak - init) t / W
//   constant      peak
//   linear        min + (peak - min) (1 - d),               d = (t - W) / (T - W)
//   cosine        min + (peak - min) (1 + cos(pi d)) / 2,   d = (t - W) / (T - W)
//   wsd           min + (peak - min) (1 - d),               d = (t - (T - C)) / C
// with d limited to [0, 1]. Cosine equals optax.warmup_cosine_decay_schedule; wsd is that of Hu et
// al., "MiniCPM" (2024), with a linear decay.
#pragma once

#include "espalier/ir/tensor.h"
#include "espalier/optim/config.h"

namespace espalier {

// An immutable value.
class Schedule {
 public:
  // kInvalidArgument as validate(config) gives it.
  static Result<Schedule> create(const OptimizerConfig& config);

  // f32 scalar, from the number of updates done before (s32 scalar; exact up to 2^24).
  Tensor operator()(const Tensor& step) const;
  // The same on the host, for logging.
  double at(int64_t step) const;

  double peak() const { return peak_; }

 private:
  enum class Decay { kNone, kLinear, kCosine };
  Schedule() = default;
  template <class N>
  N evaluate(const N& t) const;

  double init_ = 0, peak_ = 0, min_ = 0;
  double warmup_ = 0, decay_start_ = 0, decay_length_ = 1;
  Decay decay_ = Decay::kNone;
};

}  // namespace espalier
