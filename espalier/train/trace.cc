#include "espalier/train/trace.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string_view>

namespace espalier {
namespace {

constexpr std::pair<TraceThread, std::string_view> kThreads[] = {
    {TraceThread::kRun, "run"}, {TraceThread::kLoader, "loader"}, {TraceThread::kDevice, "device"}};

}  // namespace

void Trace::start(double now) {
  const std::lock_guard lock(mutex_);
  started_ = now;
  events_.clear();
  dropped_ = 0;
  active_ = true;
}

void Trace::add(TraceThread thread, const char* name, double begin, double end, int64_t step) {
  if (!active()) return;
  const std::lock_guard lock(mutex_);
  end = std::max(begin, end);
  if (end < started_) return;
  if (events_.size() >= kMostEvents) {
    ++dropped_;
    return;
  }
  events_.push_back({name, std::max(begin - started_, 0.0), end - started_, step, thread});
}

std::function<void(LoaderOptions::Time, LoaderOptions::Time)> Trace::fills_after(int64_t step) {
  const auto seconds = [](LoaderOptions::Time time) {
    return std::chrono::duration<double>(time.time_since_epoch()).count();
  };
  return [this, seconds, step](LoaderOptions::Time begin, LoaderOptions::Time end) mutable {
    add(TraceThread::kLoader, "fill", seconds(begin), seconds(end), ++step);
  };
}

size_t Trace::dropped() const {
  const std::lock_guard lock(mutex_);
  return dropped_;
}

std::string Trace::json(const Facts& facts) const {
  const std::lock_guard lock(mutex_);
  nlohmann::ordered_json other = nlohmann::ordered_json::object();
  for (const auto& [name, value] : facts) other[name] = value;
  other["dropped_events"] = dropped_;
  const int pid = ::getpid();
  std::string out = fmt::format(
      "{{\"displayTimeUnit\":\"ms\",\"otherData\":{},\"traceEvents\":[\n"
      "{{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":{},\"args\":{{\"name\":\"espalier\"}}}}",
      other.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace), pid);
  for (const auto& [thread, name] : kThreads) {
    const int tid = static_cast<int>(thread);
    out += fmt::format(
        ",\n{{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":{0},\"tid\":{1},\"args\":{{\"name\":"
        "\"{2}\"}}}},\n{{\"name\":\"thread_sort_index\",\"ph\":\"M\",\"pid\":{0},\"tid\":{1},"
        "\"args\":{{\"sort_index\":{1}}}}}",
        pid, tid, name);
  }
  // Whole nanoseconds, so that of two events that touch neither reaches into the other.
  const auto nanoseconds = [](double seconds) { return static_cast<int64_t>(seconds * 1e9); };
  for (const Event& event : events_) {
    const int64_t begin = nanoseconds(event.begin), length = nanoseconds(event.end) - begin;
    fmt::format_to(std::back_inserter(out),
                   ",\n{{\"name\":\"{}\",\"cat\":\"host\",\"ph\":\"X\",\"ts\":{}.{:03},\"dur\":{}."
                   "{:03},\"pid\":{},\"tid\":{},\"args\":{{\"step\":{}}}}}",
                   event.name, begin / 1000, begin % 1000, length / 1000, length % 1000, pid,
                   static_cast<int>(event.thread), event.step);
  }
  return out + "\n]}\n";
}

}  // namespace espalier
