#include "espalier/train/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <limits>

namespace espalier {
namespace {

constexpr double kRedrawSeconds = 0.1;
constexpr int kBarCells = 24;
// An update's weight in the average falls by e in so many seconds, but to no less than kLeastFade
// of it from one update to the next: slow steps are averaged too.
constexpr double kFadeSeconds = 15, kLeastFade = 0.8;
constexpr std::string_view kClearLine = "\r\x1b[2K";

int terminal_width() {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 80;
}

std::string format_use(const std::optional<double>& mfu,
                       const std::optional<double>& memory_bytes) {
  std::string out;
  if (mfu) out += fmt::format("  mfu {:.1f}%", *mfu * 100);
  if (memory_bytes) out += "  mem " + format_bytes(*memory_bytes);
  return out;
}

}  // namespace

std::string format_duration(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return "?";
  const auto whole = static_cast<int64_t>(std::llround(std::min(seconds, 1e15)));
  if (whole >= 3600) {
    return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
  }
  return fmt::format("{}:{:02}", whole / 60, whole % 60);
}

std::string format_latency(double seconds) {
  if (!std::isfinite(seconds)) return "?";
  if (seconds >= 0.9995) return fmt::format("{:.3g} s", seconds);
  return fmt::format("{:.3g} ms", seconds * 1e3);
}

std::string format_count(double number) {
  if (!std::isfinite(number)) return "?";
  if (number < 999.5) return fmt::format("{:.0f}", number);
  if (number < 999.5e3) return fmt::format("{:.3g}k", number / 1e3);
  if (number < 999.5e6) return fmt::format("{:.3g}M", number / 1e6);
  return fmt::format("{:.3g}G", number / 1e9);
}

std::string format_bytes(double bytes) {
  if (!std::isfinite(bytes)) return "?";
  constexpr std::string_view kUnits = "BKMGTP";
  size_t unit = 0;
  for (; bytes >= 999.5 && unit + 1 < kUnits.size(); ++unit) bytes /= 1024;
  return fmt::format("{:.3g}{}", bytes, kUnits[unit]);
}

std::string format_step(const StepMetrics& metrics, int64_t total) {
  std::string line = fmt::format("step {}/{}  loss {:.4f}", metrics.step, total, metrics.loss);
  if (metrics.val_loss) line += fmt::format("  val {:.4f}", *metrics.val_loss);
  line += fmt::format("  lr {:.2e}  grad {:.3g}  {} tok/s", metrics.lr, metrics.grad_norm,
                      format_count(metrics.tokens_per_second));
  if (metrics.step_seconds) line += fmt::format("  {}/step", format_latency(*metrics.step_seconds));
  line += format_use(metrics.mfu, metrics.memory_bytes);
  if (metrics.skipped_steps > 0) line += fmt::format("  skipped {}", metrics.skipped_steps);
  line += "  " + format_duration(metrics.elapsed_seconds);
  if (std::isfinite(metrics.seconds_left))
    line += "  left " + format_duration(metrics.seconds_left);
  return line;
}

ProgressBar::Options ProgressBar::standard_output() {
  Options options;
  options.terminal = ::isatty(STDOUT_FILENO) == 1;
  options.write = [](std::string_view text) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  };
  options.seconds = [] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
  };
  return options;
}

ProgressBar::ProgressBar(int64_t first, int64_t total, Options options)
    : first_(first), total_(total), options_(std::move(options)), step_(first) {}

ProgressBar::~ProgressBar() { clear(); }

void ProgressBar::update(int64_t step, double loss, double tokens_per_second,
                         std::optional<double> mfu, std::optional<double> memory_bytes) {
  const double now = options_.seconds();
  if (updated_) {
    const double seconds = std::max(0.0, now - *updated_ - pause_);
    const double fade = std::max(kLeastFade, std::exp(-seconds / kFadeSeconds));
    recent_seconds_ = fade * recent_seconds_ + seconds;
    recent_steps_ = fade * recent_steps_ + static_cast<double>(step - step_);
    paused_seconds_ += pause_;
    timed_steps_ += step - step_;
  }
  updated_ = now;
  pause_ = 0;
  step_ = step;
  loss_ = loss;
  tokens_per_second_ = tokens_per_second;
  mfu_ = mfu;
  memory_bytes_ = memory_bytes;
  if (!options_.terminal) return;
  if (last_drawn_ >= 0 && now - last_drawn_ < kRedrawSeconds && step < total_) return;
  draw();
}

void ProgressBar::paused(double seconds) { pause_ += seconds; }

double ProgressBar::seconds_left() const {
  if (step_ >= total_) return 0;
  if (timed_steps_ == 0) return std::numeric_limits<double>::quiet_NaN();
  const double step_seconds = recent_seconds_ / recent_steps_;
  const double pause_seconds = (paused_seconds_ + pause_) / static_cast<double>(timed_steps_);
  return static_cast<double>(total_ - step_) * (step_seconds + pause_seconds);
}

void ProgressBar::log(const StepMetrics& metrics) { print(format_step(metrics, total_)); }

void ProgressBar::print(std::string_view line) {
  const bool shown = shown_;
  clear();
  options_.write(std::string(line) + "\n");
  if (shown) draw();
}

void ProgressBar::clear() {
  if (shown_) options_.write(kClearLine);
  shown_ = false;
}

void ProgressBar::draw() {
  last_drawn_ = options_.seconds();
  shown_ = true;
  options_.write(std::string(kClearLine) + bar());
}

std::string ProgressBar::bar() const {
  const double done = total_ > 0 ? static_cast<double>(step_) / static_cast<double>(total_) : 1;
  const int filled = std::clamp(static_cast<int>(done * kBarCells), 0, kBarCells);
  const std::string numbers =
      fmt::format("{}/{}  loss {:.4f}  {} tok/s{}  left {}", step_, total_, loss_,
                  format_count(tokens_per_second_), format_use(mfu_, memory_bytes_),
                  format_duration(seconds_left()));
  const std::string line =
      fmt::format("[{:#<{}}{:-<{}}] {}", "", filled, "", kBarCells - filled, numbers);
  // A line as wide as the terminal would wrap and could not be cleared.
  const auto width =
      static_cast<size_t>(options_.width > 0 ? options_.width : terminal_width()) - 1;
  return line.size() <= width ? line : numbers.substr(0, width);
}

}  // namespace espalier
