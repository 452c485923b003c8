// Profile: a span of a run's steps, recorded by the plugin's profiler where it has one, and as a
// Trace of our own on every platform. In the run's folder:
//
//   plugins/profile/YYYY_MM_DD_HH_MM_SS/espalier.trace.json   the Trace
//   plugins/profile/YYYY_MM_DD_HH_MM_SS/HOST.xplane.pb        the plugin's
//
// the place where TensorBoard's profile plugin looks, beside the run's event files, so that
// `tensorboard --logdir RUN` shows both; it takes names that end in "xplane.pb" and passes over
// others. The time is local, that of the profile's start.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "espalier/base/error.h"
#include "espalier/pjrt/client.h"
#include "espalier/pjrt/profiler.h"
#include "espalier/train/run_log.h"
#include "espalier/train/trace.h"

namespace espalier {

// Steps of a run, counted from 1.
struct StepRange {
  int64_t first = 0, last = 0;  // `last` is one of them
  bool operator==(const StepRange&) const = default;
};

// From "START:STOP". kInvalidArgument where these are no numbers from 1 on, or START lies past
// STOP.
Result<StepRange> parse_step_range(std::string_view text);

// Whether a run that has done `done` of `steps` steps comes by the whole range: else
// kInvalidArgument. (A run that has done none may be asked for any steps up to its last.)
Status check_step_range(const StepRange& range, int64_t done, int64_t steps);

// One profile. Not thread-safe.
class Profile {
 public:
  // `run`: the run's folder; `trace` gets the run's events. All outlive this. Says on standard
  // output where the plugin has no profiler. A run is not worth less for a profile that fails:
  // failures are warnings.
  Profile(const StepRange& range, std::filesystem::path run, const Client& client, Trace& trace,
          RunLog& log);

  // Whether it begins with this step, and whether this step is its last.
  bool begins_with(int64_t step) const { return step == range_.first; }
  bool ends_with(int64_t step) const { return step == range_.last; }

  // Before the first step; nothing is under way.
  void start();
  // After the last step, or where the run ends before it, with `done` steps: stops recording,
  // writes the files and says where they are. Where the profile never began, it says that; a second
  // call does nothing. Where one of the two records fails, the other one is written all the same.
  void finish(int64_t done);

 private:
  enum class State { kWaiting, kRecording, kDone };
  Status start_plugin_profile();
  Status write_plugin_profile(const std::string& host);
  Status write_trace(const std::string& host, int64_t last);

  StepRange range_;
  std::filesystem::path run_, folder_;
  const Client& client_;
  Trace& trace_;
  RunLog& log_;
  std::optional<Profiler> profiler_;
  State state_ = State::kWaiting;
};

}  // namespace espalier
