// StepClock: how long steps take, pauses left out.
//
// Up to three steps run or wait at once, so a step's time is not the time between its start and its
// end: that would count the steps before it too. A step's seconds run from the later of
//   - when the step before it was done, and
//   - when the last pause ended (or the run began),
// to when the step was done. So the seconds of consecutive steps add up to the time that was not
// paused, whether the devices, the loader or the host set the pace; and where each step is waited
// for (train.log_every = 1), they run from asking for its batch to its end. A step is done when the
// plugin says that its report lies on the first device, however late the host reads it.
//
// A pause is an evaluation, a sample, a checkpoint, a log line, the start and the end of a profile.
// All steps that were started are done before it begins.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

namespace espalier {

// Seconds of a clock that never goes back.
double now_seconds();

// Times are those of one clock. Not thread-safe.
class StepClock {
 public:
  // A step's end may be noticed late, on a busy machine by more than a step takes, which makes the
  // next step look short. So steps that overlap are taken together, up to so many in a row.
  static constexpr size_t kTogether = 8;

  // A pause ended, or the run began.
  void resume(double now);
  // The next step was done; returns when its time began.
  double step_done(double at);
  // The steps counted from here on are those of the next log line.
  void start_window() { window_steps_ = 0, window_seconds_ = 0; }

  // Mean seconds of the window's steps; unset while there is none.
  std::optional<double> mean() const;
  // The least time of a step; of steps that overlap the least mean of kTogether in a row, or of all
  // since a pause. The first step, which warms everything up, is not left out.
  std::optional<double> fastest() const { return fastest_; }

 private:
  // The end of the last pause and of the steps since, or of the last kTogether + 1 steps.
  std::deque<double> ends_ = {0};
  int64_t window_steps_ = 0;
  double window_seconds_ = 0;
  std::optional<double> fastest_;
};

}  // namespace espalier
