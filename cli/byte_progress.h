// ByteProgress: how far a long reading of bytes has come.
#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>

#include "espalier/base/log.h"

namespace espalier {

// A bar that is redrawn on a terminal; a line for every tenth in a pipe. Call it with bytes done
// and bytes in all (0: not known).
class ByteProgress {
 public:
  // `first`: what is there already, and does not count for the speed.
  explicit ByteProgress(std::string label, uint64_t first = 0)
      : label_(std::move(label)), first_(first) {}
  ByteProgress(const ByteProgress&) = delete;
  ByteProgress& operator=(const ByteProgress&) = delete;
  ~ByteProgress() {
    if (drawn_) fmt::print("\n");
  }

  void operator()(uint64_t done, uint64_t all) {
    const auto now = Clock::now();
    const uint64_t tenth = all > 0 ? done * 10 / all : 0;
    if (terminal_ ? now - shown_ < std::chrono::milliseconds(100) && done != all
                  : tenth <= last_tenth_) {
      return;
    }
    if (terminal_ && done == all && whole_) return;
    whole_ = done == all;
    shown_ = now;
    last_tenth_ = tenth;
    const double seconds = std::chrono::duration<double>(now - begun_).count();
    const auto fresh = static_cast<double>(done - std::min(first_, done));
    const std::string rate = fmt::format("{:.1f} MB/s", seconds > 0 ? fresh / seconds / 1e6 : 0);
    const double megabytes = static_cast<double>(std::max(done, all)) / 1e6;
    const size_t filled = all > 0 ? static_cast<size_t>(std::min(done, all) * kWidth / all) : 0;
    const std::string bar =
        terminal_ ? fmt::format("[{:.<{}}] ", std::string(filled, '#'), kWidth) : std::string();
    const std::string part = all > 0 ? fmt::format("{:3}% of ", done * 100 / all) : std::string();
    show(fmt::format("{} {}{}{:.1f} MB, {}", label_, bar, part, megabytes, rate));
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr size_t kWidth = 30;

  void show(const std::string& line) {
    if (!terminal_) {
      out().info(line);
      return;
    }
    fmt::print("\r\x1b[K{}", line);
    std::fflush(stdout);
    drawn_ = true;
  }

  std::string label_;
  uint64_t first_;
  bool terminal_ = ::isatty(STDOUT_FILENO) == 1;
  bool drawn_ = false, whole_ = false;
  uint64_t last_tenth_ = 0;
  Clock::time_point begun_ = Clock::now(), shown_ = begun_ - std::chrono::seconds(1);
};

}  // namespace espalier
