// What a training run shows on standard output: on a terminal one line that is redrawn (step, loss,
// tokens a second, MFU, memory, time left), in a pipe plain lines.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "espalier/train/metrics.h"

namespace espalier {

// Everything printed while a bar may be on the screen goes through print() or after clear().
// Not thread-safe.
class ProgressBar {
 public:
  struct Options {
    bool terminal = false;
    int width = 0;                                // columns; 0 asks the terminal
    std::function<void(std::string_view)> write;  // writes and flushes
    std::function<double()> seconds;              // a clock that never goes back
  };
  // Standard output, whatever it is.
  static Options standard_output();

  // `first`: steps done before this session; `total`: steps of the whole run.
  ProgressBar(int64_t first, int64_t total, Options options = standard_output());
  ~ProgressBar();  // clears the bar
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  // After each step: redraws the bar, at most ten times a second and once at the end. A pipe shows
  // nothing of it.
  void update(int64_t step, double loss, double tokens_per_second,
              std::optional<double> mfu = std::nullopt,
              std::optional<double> memory_bytes = std::nullopt);
  // After a pause between two updates (an evaluation, a sample, a checkpoint): its length, which
  // seconds_left() then spreads over the steps of this session instead of taking it for slow steps.
  void paused(double seconds);
  // To the run's end: steps take as long as they did of late (an exponential moving average over
  // some 15 seconds, at least five updates), and pauses as much of a step as in this session so
  // far. The first update only starts the clock, since the first step is often the slowest by far.
  // NaN until the second.
  double seconds_left() const;
  // At a logged step: a line of its numbers, above the bar.
  void log(const StepMetrics& metrics);
  // A line of the caller's (without its newline), above the bar.
  void print(std::string_view line);
  // Takes the bar off the screen until the next update.
  void clear();

 private:
  void draw();
  std::string bar() const;

  int64_t first_, total_;
  Options options_;
  double last_drawn_ = -1;
  bool shown_ = false;
  int64_t step_;
  double loss_ = 0, tokens_per_second_ = 0;
  std::optional<double> mfu_, memory_bytes_;

  // Time left: when the last update was, time and steps with fading weights (their quotient is not
  // misled by updates that come in bursts), and pauses.
  std::optional<double> updated_;
  double recent_seconds_ = 0, recent_steps_ = 0;
  double pause_ = 0;  // since the last update
  double paused_seconds_ = 0;
  int64_t timed_steps_ = 0;
};

// "1:02:03", "4:05"
std::string format_duration(double seconds);
// "412 ms", "1.25 s": three digits
std::string format_latency(double seconds);
// "950", "12.3k", "1.25M"
std::string format_count(double number);
// "950B", "1.25G": bytes, in powers of 1024
std::string format_bytes(double bytes);
// "step 20/500  loss 3.1234  lr 3.00e-04  grad 0.91  12.3k tok/s  412 ms/step  mfu 41.2%  mem 1.2G
// 0:42  left 1:10"; what is not known is left out.
std::string format_step(const StepMetrics& metrics, int64_t total);

}  // namespace espalier
