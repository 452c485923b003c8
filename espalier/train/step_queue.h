// StepQueue: the steps that were started and whose reports are still to be read.
#pragma once

#include <deque>

#include "espalier/train/step.h"
#include "espalier/train/step_clock.h"
#include "espalier/train/trace.h"

namespace espalier {

// Times every step, and tells a Trace what it does. Not thread-safe. `step` and `trace` outlive it.
class StepQueue {
 public:
  // Steps running or waiting at once: enough that the device never waits for the host,
  // few enough that a stop is prompt and batches in flight are few.
  static constexpr size_t kMost = 3;

  StepQueue(TrainStep& step, Trace& trace) : step_(step), trace_(trace) {}

  bool empty() const { return queue_.empty(); }
  bool full() const { return queue_.size() >= kMost; }

  // Starts the run's step of this number, one more than that of the step before it, with the
  // loader's next batch, and returns; `state` becomes the next one. Gives where the loader stands
  // then.
  Result<LoaderState> start(int64_t number, TrainState& state, Loader& loader);

  struct Done {
    int64_t number = 0;
    StepReport report;
  };
  // Waits for the oldest step; there is one.
  Result<Done> read();

  StepClock& clock() { return clock_; }
  const StepClock& clock() const { return clock_; }

 private:
  struct Started {
    int64_t number;
    PendingReport report;
  };
  TrainStep& step_;
  Trace& trace_;
  std::deque<Started> queue_;
  StepClock clock_;
};

}  // namespace espalier
