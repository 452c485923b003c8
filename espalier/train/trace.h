// Trace: what a run's threads did over a span of time, in Chrome's trace-event format ("Trace Event
// Format", JSON object form), which Perfetto and chrome://tracing open.
//
// A file is {"displayTimeUnit", "otherData", "traceEvents"}. Its events are of two kinds: metadata
// ("ph": "M") that name the process and the threads, and complete events ("ph": "X") with "name",
// "cat", "ts" and "dur" in microseconds since the trace began, "pid", "tid" and the step's number
// in "args": {"step": N}. The threads:
//   tid 1 "run"     load (waiting for the loader's batch), put (starting its way to the devices),
//                   dispatch (starting the step), wait (for a step's report), eval, sample,
//                   checkpoint, log; one after another
//   tid 2 "loader"  fill: a batch, in the loader's thread; "step" is the step that will take it
//   tid 3 "device"  step: from its dispatch, or the end of the step before it, to its own end
// "otherData" has what the caller says of the run, and "dropped_events".
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "espalier/data/loader.h"
#include "espalier/train/step_clock.h"

namespace espalier {

enum class TraceThread : int8_t { kRun = 1, kLoader = 2, kDevice = 3 };

// Records from start() to stop(); outside of that an event costs one read of a flag. Thread-safe.
class Trace {
 public:
  // Events that are kept, 40 bytes each; further ones are dropped and counted.
  static constexpr size_t kMostEvents = size_t{1} << 18;

  // Times are those of now_seconds(). Forgets what was recorded before.
  void start(double now);
  void stop() { active_ = false; }
  bool active() const { return active_.load(std::memory_order_relaxed); }

  // `name` must be a literal. What lies before start() is cut off; an end before the begin counts
  // as the begin.
  void add(TraceThread thread, const char* name, double begin, double end, int64_t step);
  // For LoaderOptions::filled: the batches are those of the steps after `step`. Borrows this.
  std::function<void(LoaderOptions::Time begin, LoaderOptions::Time end)> fills_after(int64_t step);
  size_t dropped() const;

  using Facts = std::vector<std::pair<std::string, std::string>>;
  std::string json(const Facts& facts) const;

 private:
  struct Event {
    const char* name;
    double begin, end;  // seconds since start()
    int64_t step;
    TraceThread thread;
  };
  std::atomic<bool> active_ = false;
  mutable std::mutex mutex_;
  double started_ = 0;
  std::vector<Event> events_;
  size_t dropped_ = 0;
};

// Adds an event of the run's thread, from its own making to its end.
class TraceSpan {
 public:
  TraceSpan(Trace& trace, const char* name, int64_t step)
      : trace_(trace), name_(name), step_(step), begin_(trace.active() ? now_seconds() : -1) {}
  ~TraceSpan() {
    if (begin_ >= 0) trace_.add(TraceThread::kRun, name_, begin_, now_seconds(), step_);
  }
  TraceSpan(const TraceSpan&) = delete;
  TraceSpan& operator=(const TraceSpan&) = delete;

 private:
  Trace& trace_;
  const char* name_;
  int64_t step_;
  double begin_;
};

}  // namespace espalier
