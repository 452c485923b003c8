#include "espalier/train/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>

namespace espalier {
namespace {

constexpr double kRedrawSeconds = 0.1;
constexpr int kBarCells = 24;
constexpr std::string_view kClearLine = "\r\x1b[2K";

int terminal_width() {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 80;
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

std::string format_count(double number) {
  if (!std::isfinite(number)) return "?";
  if (number < 999.5) return fmt::format("{:.0f}", number);
  if (number < 999.5e3) return fmt::format("{:.3g}k", number / 1e3);
  if (number < 999.5e6) return fmt::format("{:.3g}M", number / 1e6);
  return fmt::format("{:.3g}G", number / 1e9);
}

std::string format_step(const StepMetrics& metrics, int64_t total) {
  std::string line = fmt::format("step {}/{}  loss {:.4f}", metrics.step, total, metrics.loss);
  if (metrics.val_loss) line += fmt::format("  val {:.4f}", *metrics.val_loss);
  return line + fmt::format("  lr {:.2e}  grad {:.3g}  {} tok/s  {}", metrics.lr, metrics.grad_norm,
                            format_count(metrics.tokens_per_second),
                            format_duration(metrics.elapsed_seconds));
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
    : first_(first),
      total_(total),
      options_(std::move(options)),
      timed_from_(first),
      start_(options_.seconds()),
      step_(first) {}

ProgressBar::~ProgressBar() { clear(); }

void ProgressBar::update(int64_t step, double loss, double tokens_per_second) {
  const double now = options_.seconds();
  step_ = step;
  loss_ = loss;
  tokens_per_second_ = tokens_per_second;
  if (!options_.terminal) return;
  if (last_drawn_ >= 0 && now - last_drawn_ < kRedrawSeconds && step < total_) return;
  draw();
  // The first step is often the slowest by far: once it is shown, time is counted from its end.
  if (timed_from_ == first_) {
    timed_from_ = step;
    start_ = now;
  }
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
  const double rate = static_cast<double>(step_ - timed_from_) / (options_.seconds() - start_);
  const double left = static_cast<double>(total_ - step_) / rate;
  const std::string numbers =
      fmt::format("{}/{}  loss {:.4f}  {} tok/s  {} left", step_, total_, loss_,
                  format_count(tokens_per_second_), format_duration(left));
  const std::string line =
      fmt::format("[{:#<{}}{:-<{}}] {}", "", filled, "", kBarCells - filled, numbers);
  // A line as wide as the terminal would wrap and could not be cleared.
  const auto width =
      static_cast<size_t>(options_.width > 0 ? options_.width : terminal_width()) - 1;
  return line.size() <= width ? line : numbers.substr(0, width);
}

}  // namespace espalier
