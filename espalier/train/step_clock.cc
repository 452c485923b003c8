#include "espalier/train/step_clock.h"

#include <algorithm>
#include <chrono>

namespace espalier {

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void StepClock::resume(double now) { ends_ = {std::max(ends_.back(), now)}; }

double StepClock::step_done(double at) {
  const double begin = ends_.back();
  ends_.push_back(std::max(begin, at));
  if (ends_.size() > kTogether + 1) ends_.pop_front();
  ++window_steps_;
  window_seconds_ += ends_.back() - begin;
  const double mean = (ends_.back() - ends_.front()) / static_cast<double>(ends_.size() - 1);
  fastest_ = std::min(fastest_.value_or(mean), mean);
  return begin;
}

std::optional<double> StepClock::mean() const {
  if (window_steps_ == 0) return std::nullopt;
  return window_seconds_ / static_cast<double>(window_steps_);
}

}  // namespace espalier
