#include "espalier/optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "espalier/ops/elementwise.h"
#include "espalier/ops/source.h"

namespace espalier {
namespace {

// What evaluate() needs of a number, for doubles and for f32 scalars.
double like(double, double value) { return value; }
double unit(double x) { return std::clamp(x, 0.0, 1.0); }
double cosine(double x) { return std::cos(x); }
double if_below(double t, double bound, double yes, double no) { return t < bound ? yes : no; }

Tensor like(const Tensor& t, double value) { return full(t.type(), value); }
Tensor unit(const Tensor& x) { return min(max(x, 0.0), full(x.type(), 1.0)); }
Tensor cosine(const Tensor& x) { return cos(x); }
Tensor if_below(const Tensor& t, double bound, const Tensor& yes, const Tensor& no) {
  return select(compare(t, bound, Direction::kLt), yes, no);
}

}  // namespace

Result<Schedule> Schedule::create(const OptimizerConfig& config) {
  ESPALIER_TRY(validate(config));
  Schedule s;
  s.init_ = config.init_learning_rate;
  s.peak_ = config.learning_rate;
  s.min_ = config.min_learning_rate;
  s.warmup_ = static_cast<double>(config.warmup_steps);
  if (config.schedule != "constant") {
    const int64_t length =
        config.schedule == "wsd" ? config.cooldown_steps : config.decay_steps - config.warmup_steps;
    s.decay_ = config.schedule == "cosine" ? Decay::kCosine : Decay::kLinear;
    s.decay_length_ = static_cast<double>(length);
    s.decay_start_ = static_cast<double>(config.decay_steps - length);
  }
  return s;
}

template <class N>
N Schedule::evaluate(const N& t) const {
  N rate = like(t, peak_);
  if (decay_ != Decay::kNone) {
    const N done = unit((t - decay_start_) / decay_length_);
    const N left =
        decay_ == Decay::kLinear ? 1.0 - done : N((cosine(done * std::numbers::pi) + 1.0) * 0.5);
    rate = left * (peak_ - min_) + min_;
  }
  if (warmup_ == 0) return rate;
  return if_below(t, warmup_, t / warmup_ * (peak_ - init_) + init_, rate);
}

Tensor Schedule::operator()(const Tensor& step) const {
  if (step.type() != TensorType{DType::kS32, {}}) {
    throw Error("[schedule] needs a step number, s32[], got " + to_string(step.type()));
  }
  return evaluate(convert(step, DType::kF32));
}

double Schedule::at(int64_t step) const { return evaluate(static_cast<double>(step)); }

}  // namespace espalier
