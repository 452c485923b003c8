#include "espalier/train/step_queue.h"

#include <optional>

namespace espalier {

Result<LoaderState> StepQueue::start(int64_t number, TrainState& state, Loader& loader) {
  std::optional<TraceSpan> span(std::in_place, trace_, "load", number);
  ESPALIER_ASSIGN(const Batch batch, loader.next());
  span.emplace(trace_, "put", number);
  ESPALIER_ASSIGN(StepInput input, step_.put(batch));
  span.emplace(trace_, "dispatch", number);
  ESPALIER_ASSIGN(PendingReport report, step_.run(state, std::move(input)));
  queue_.push_back({number, std::move(report)});
  return batch.after;
}

Result<StepQueue::Done> StepQueue::read() {
  const Started& oldest = queue_.front();
  std::optional<TraceSpan> span(std::in_place, trace_, "wait", oldest.number);
  ESPALIER_ASSIGN(StepReport report, step_.read(oldest.report));
  span.reset();
  Done done{oldest.number, std::move(report)};
  queue_.pop_front();
  const StepReport& times = done.report;
  const double begin = clock_.step_done(times.done_seconds);
  trace_.add(TraceThread::kDevice, "step", std::max(begin, times.dispatched_seconds),
             times.done_seconds, done.number);
  return done;
}

}  // namespace espalier
