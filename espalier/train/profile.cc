#include "espalier/train/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <ctime>
#include <utility>

#include "espalier/base/file.h"
#include "espalier/base/log.h"
#include "espalier/train/tensorboard.h"

namespace espalier {
namespace fs = std::filesystem;
namespace {

std::optional<int64_t> parse_step(std::string_view text) {
  int64_t step = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), step);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return step;
}

// A folder that is not there yet: TensorBoard's name for a profile that starts now.
fs::path new_folder(const fs::path& run) {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::localtime_r(&now, &parts);
  std::array<char, 32> name{};
  std::strftime(name.data(), name.size(), "%Y_%m_%d_%H_%M_%S", &parts);
  const fs::path profiles = run / "plugins" / "profile";
  fs::path path = profiles / name.data();
  std::error_code ignored;
  for (int count = 2; fs::exists(path, ignored); ++count) {
    path = profiles / fmt::format("{}_{}", name.data(), count);
  }
  return path;
}

Failure invalid(std::string message) { return {Code::kInvalidArgument, std::move(message)}; }

}  // namespace

Result<StepRange> parse_step_range(std::string_view text) {
  const size_t colon = text.find(':');
  const auto first = parse_step(text.substr(0, colon));
  std::optional<int64_t> last;
  if (colon != std::string_view::npos) last = parse_step(text.substr(colon + 1));
  if (!first || !last) {
    return invalid(fmt::format(
        "--profile {}: two numbers of steps are needed, START:STOP, such as 10:12", text));
  }
  if (*first < 1) {
    return invalid(
        fmt::format("--profile {}: steps are counted from 1, START is {}", text, *first));
  }
  if (*first > *last) {
    return invalid(
        fmt::format("--profile {}: START ({}) lies past STOP ({}); STOP is the last step "
                    "that is profiled",
                    text, *first, *last));
  }
  return StepRange{*first, *last};
}

Status check_step_range(const StepRange& range, int64_t done, int64_t steps) {
  if (range.last > steps) {
    return invalid(
        fmt::format("--profile {}:{}: the run has {} steps (train.steps, or "
                    "train.epochs); end the profile within them, or raise train.steps",
                    range.first, range.last, steps));
  }
  if (range.first <= done) {
    return invalid(
        fmt::format("--profile {}:{}: the run goes on after step {}; START must be at "
                    "least {}",
                    range.first, range.last, done, done + 1));
  }
  return {};
}

Profile::Profile(const StepRange& range, fs::path run, const Client& client, Trace& trace,
                 RunLog& log)
    : range_(range), run_(std::move(run)), client_(client), trace_(trace), log_(log) {
  if (!Profiler::available(client.plugin())) {
    out().info("the {} plugin has no profiler: only the trace of the host will be written",
               client.platform_name());
  }
}

void Profile::start() {
  state_ = State::kRecording;
  folder_ = new_folder(run_);
  if (const Status started = start_plugin_profile(); !started) {
    log_.warn("the plugin's profile is left out: " + started.failure().message);
  }
  trace_.start(now_seconds());
}

Status Profile::start_plugin_profile() {
  if (!Profiler::available(client_.plugin())) return {};
  ESPALIER_ASSIGN(Profiler profiler, Profiler::create(client_.plugin()));
  ESPALIER_TRY(profiler.start());
  profiler_.emplace(std::move(profiler));
  return {};
}

Status Profile::write_plugin_profile(const std::string& host) {
  ESPALIER_TRY(profiler_->stop());
  ESPALIER_ASSIGN(const std::string bytes, profiler_->collect());
  ESPALIER_TRY(make_folders(folder_));
  return write_file(folder_ / (host + ".xplane.pb"), bytes);
}

Status Profile::write_trace(const std::string& host, int64_t last) {
  ESPALIER_TRY(make_folders(folder_));
  return write_file(folder_ / "espalier.trace.json",
                    trace_.json({{"run", run_.string()},
                                 {"host", host},
                                 {"platform", client_.platform_name()},
                                 {"steps", fmt::format("{}:{}", range_.first, last)}}));
}

void Profile::finish(int64_t done) {
  const State state = std::exchange(state_, State::kDone);
  if (state == State::kDone) return;
  log_.bar().clear();
  if (state == State::kWaiting) {
    out().info("no profile: the run ended after step {}, before step {}", done, range_.first);
    return;
  }
  trace_.stop();
  const int64_t last = std::min(done, range_.last);
  const std::string host = host_name();
  std::string files;
  if (profiler_) {
    if (const Status written = write_plugin_profile(host); written) {
      files = host + ".xplane.pb opens in TensorBoard, ";
    } else {
      log_.warn("the plugin's profile is lost: " + written.failure().message);
    }
    profiler_.reset();
  }
  if (const Status written = write_trace(host, last); !written) {
    log_.warn("the trace is lost: " + written.failure().message);
    return;
  }
  out().info("profile of steps {} to {} in {}: {}espalier.trace.json opens in Perfetto",
             range_.first, last, folder_.string(), files);
  if (trace_.dropped() > 0) {
    log_.warn(
        fmt::format("espalier.trace.json has the first {} events and lacks {}; profile fewer "
                    "steps",
                    Trace::kMostEvents, trace_.dropped()));
  }
}

}  // namespace espalier
