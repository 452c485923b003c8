// The progress bar on a terminal, plain lines in a pipe.
#include "espalier/train/progress.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace espalier {
namespace {

constexpr const char* kClear = "\r\x1b[2K";

struct Screen {
  std::string text;
  double now = 0;
  ProgressBar::Options options(bool terminal, int width = 100) {
    return {terminal, width, [this](std::string_view t) { text += t; }, [this] { return now; }};
  }
  size_t draws() const {
    size_t count = 0;
    for (size_t at = text.find('['); at != std::string::npos; at = text.find('[', at + 1)) {
      count += text.compare(at, 2, "[2") != 0 ? 1 : 0;  // not the clearing sequence's own bracket
    }
    return count;
  }
};

StepMetrics metrics() {
  StepMetrics m;
  m.step = 20;
  m.loss = 3.12345;
  m.lr = 3e-4;
  m.grad_norm = 0.912;
  m.tokens_per_second = 12345;
  m.elapsed_seconds = 42;
  return m;
}

TEST(ProgressBar, APipeGetsPlainLinesOnly) {
  Screen screen;
  {
    ProgressBar bar(0, 500, screen.options(false));
    bar.update(1, 3.0, 100);
    EXPECT_EQ(screen.text, "");
    bar.log(metrics());
    bar.print("checkpoint saved");
    bar.clear();
  }
  EXPECT_EQ(screen.text,
            "step 20/500  loss 3.1235  lr 3.00e-04  grad 0.912  12.3k tok/s  0:42\n"
            "checkpoint saved\n");
}

TEST(ProgressBar, LinesShowUtilizationMemoryTimeLeftAndSkippedSteps) {
  StepMetrics m = metrics();
  m.mfu = 0.4123;
  m.memory_bytes = 1.2 * 1024 * 1024 * 1024;
  m.seconds_left = 70;
  EXPECT_EQ(format_step(m, 500),
            "step 20/500  loss 3.1235  lr 3.00e-04  grad 0.912  12.3k tok/s  mfu 41.2%  mem 1.2G  "
            "0:42  left 1:10");
  m.mfu.reset();
  m.skipped_steps = 3;
  m.step_seconds = 0.4117;
  EXPECT_EQ(format_step(m, 500),
            "step 20/500  loss 3.1235  lr 3.00e-04  grad 0.912  12.3k tok/s  412 ms/step  mem 1.2G "
            " skipped 3  "
            "0:42  left 1:10");
}

TEST(ProgressBar, ATerminalShowsOneLineWithTimeLeft) {
  Screen screen;
  ProgressBar bar(0, 100, screen.options(true));
  screen.now = 60;  // a slow first step does not count
  bar.update(1, 4.0, 900);
  screen.now = 62;
  screen.text.clear();
  bar.update(11, 3.5, 1500);
  EXPECT_EQ(screen.text,
            std::string(kClear) +
                "[##----------------------] 11/100  loss 3.5000  1.5k tok/s  left 0:18");
  screen.now = 64;
  screen.text.clear();
  bar.update(21, 3.5, 1500, 0.5, 2048);
  EXPECT_EQ(screen.text, std::string(kClear) +
                             "[#####-------------------] 21/100  loss 3.5000  1.5k tok/s  "
                             "mfu 50.0%  mem 2K  left 0:16");
}

// Runs steps of one length and returns the step after the last.
int64_t run_steps(ProgressBar& bar, Screen& screen, int64_t step, int64_t count, double seconds) {
  for (int64_t i = 0; i < count; ++i) {
    screen.now += seconds;
    bar.update(++step, 1.0, 1.0);
  }
  return step;
}

TEST(ProgressBar, TimeLeftFollowsAChangeOfSpeed) {
  Screen screen;
  ProgressBar bar(0, 100000, screen.options(false));
  EXPECT_TRUE(std::isnan(bar.seconds_left()));
  int64_t step = run_steps(bar, screen, 0, 1, 60);
  EXPECT_TRUE(std::isnan(bar.seconds_left()));  // one step says nothing: it may have compiled
  step = run_steps(bar, screen, step, 9999, 0.1);
  EXPECT_NEAR(bar.seconds_left(), 90000 * 0.1, 1);
  // A minute later than the machine has slowed down to half, time left has doubled.
  step = run_steps(bar, screen, step, 300, 0.2);
  EXPECT_NEAR(bar.seconds_left(), static_cast<double>(100000 - step) * 0.2, 0.03 * 17940);
  // The same for steps longer than the average's time: some thirty are enough.
  step = run_steps(bar, screen, step, 30, 60);
  const double left = static_cast<double>(100000 - step) * 60;
  EXPECT_NEAR(bar.seconds_left(), left, 0.02 * left);
}

TEST(ProgressBar, BurstsOfUpdatesDoNotMislead) {
  Screen screen;
  ProgressBar bar(0, 10000, screen.options(false));
  int64_t step = run_steps(bar, screen, 0, 1, 5);
  for (int i = 0; i < 500; ++i) {  // three steps end together, every 0.3 s
    step = run_steps(bar, screen, step, 1, 0.3);
    step = run_steps(bar, screen, step, 2, 0);
  }
  const double left = static_cast<double>(10000 - step) * 0.1;
  EXPECT_NEAR(bar.seconds_left(), left, 0.02 * left);
}

TEST(ProgressBar, TimeLeftSpreadsPausesOverTheSteps) {
  Screen screen;
  ProgressBar bar(0, 1000, screen.options(false));
  int64_t step = run_steps(bar, screen, 0, 101, 1);
  EXPECT_NEAR(bar.seconds_left(), 899, 1e-6);
  screen.now += 50;  // an evaluation after every hundred steps
  bar.paused(50);
  EXPECT_NEAR(bar.seconds_left(), 899 * 1.5, 1e-6);
  step = run_steps(bar, screen, step, 100, 1);
  screen.now += 50;
  bar.paused(20);
  bar.paused(30);
  step = run_steps(bar, screen, step, 100, 1);
  EXPECT_NEAR(bar.seconds_left(), 699 * (1 + 100.0 / 300), 1e-6);
  run_steps(bar, screen, step, 699, 1);
  EXPECT_EQ(bar.seconds_left(), 0);
}

TEST(ProgressBar, AResumedRunTimesItsOwnSteps) {
  Screen screen;
  ProgressBar bar(500, 1000, screen.options(false));
  run_steps(bar, screen, 500, 11, 2);
  EXPECT_NEAR(bar.seconds_left(), 489 * 2, 1e-6);
}

TEST(ProgressBar, RedrawsAtMostTenTimesASecondAndAtTheEnd) {
  Screen screen;
  ProgressBar bar(0, 1000, screen.options(true));
  for (int64_t step = 1; step < 1000; ++step) {
    screen.now = 0.001 * static_cast<double>(step);
    bar.update(step, 1.0, 1.0);
  }
  EXPECT_GE(screen.draws(), 9u);
  EXPECT_LE(screen.draws(), 11u);
  screen.text.clear();
  bar.update(1000, 1.0, 1.0);
  EXPECT_NE(screen.text.find("1000/1000"), std::string::npos);
}

TEST(ProgressBar, LinesStandAboveTheBar) {
  Screen screen;
  {
    ProgressBar bar(0, 100, screen.options(true));
    screen.now = 1;
    bar.update(1, 1.0, 1.0);
    screen.text.clear();
    bar.log(metrics());
    EXPECT_TRUE(screen.text.starts_with(std::string(kClear) + "step 20/100")) << screen.text;
    screen.text.clear();
    bar.print("hello");
    EXPECT_TRUE(screen.text.starts_with(std::string(kClear) + "hello\n" + kClear + "["))
        << screen.text;
    screen.text.clear();
    StepMetrics evaluated = metrics();
    evaluated.val_loss = 3.25;
    bar.log(evaluated);
    EXPECT_NE(screen.text.find("val 3.2500"), std::string::npos);
    screen.text.clear();
    bar.clear();
    bar.clear();
    EXPECT_EQ(screen.text, kClear);
    bar.print("alone");
    EXPECT_EQ(screen.text, std::string(kClear) + "alone\n");
  }
  EXPECT_TRUE(screen.text.ends_with("alone\n"));
}

TEST(ProgressBar, NeverWiderThanTheTerminal) {
  for (const int width : {1, 10, 40, 70, 90}) {
    Screen screen;
    ProgressBar bar(0, 100, screen.options(true, width));
    screen.now = 1;
    bar.update(50, 1.0, 1.0);
    EXPECT_LT(screen.text.size() - std::string_view(kClear).size(), static_cast<size_t>(width));
  }
}

TEST(Format, DurationsAndCounts) {
  EXPECT_EQ(format_duration(0), "0:00");
  EXPECT_EQ(format_duration(245), "4:05");
  EXPECT_EQ(format_duration(3723), "1:02:03");
  EXPECT_EQ(format_duration(std::numeric_limits<double>::infinity()), "?");
  EXPECT_EQ(format_duration(std::nan("")), "?");
  EXPECT_EQ(format_latency(0.0004561), "0.456 ms");
  EXPECT_EQ(format_latency(0.0412), "41.2 ms");
  EXPECT_EQ(format_latency(0.9994), "999 ms");
  EXPECT_EQ(format_latency(0.9996), "1 s");
  EXPECT_EQ(format_latency(12.346), "12.3 s");
  EXPECT_EQ(format_latency(std::nan("")), "?");
  EXPECT_EQ(format_count(950), "950");
  EXPECT_EQ(format_count(12345), "12.3k");
  EXPECT_EQ(format_count(1250000), "1.25M");
  EXPECT_EQ(format_count(std::nan("")), "?");
  EXPECT_EQ(format_bytes(950), "950B");
  EXPECT_EQ(format_bytes(1536), "1.5K");
  EXPECT_EQ(format_bytes(1023 * 1024.0), "0.999M");
  EXPECT_EQ(format_bytes(141.0 * 1024 * 1024 * 1024), "141G");
  EXPECT_EQ(format_bytes(std::nan("")), "?");
}

}  // namespace
}  // namespace espalier
