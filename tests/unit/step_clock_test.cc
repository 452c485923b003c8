#include "espalier/train/step_clock.h"

#include <gtest/gtest.h>

namespace espalier {
namespace {

// Whole numbers of seconds, so that sums are exact.

TEST(StepClock, WaitedForStepsTakeFromTheirBatchToTheirEnd) {
  StepClock clock;
  EXPECT_FALSE(clock.mean().has_value());
  EXPECT_FALSE(clock.fastest().has_value());
  clock.resume(100);
  EXPECT_EQ(clock.step_done(140), 100);  // the first one, slow
  EXPECT_EQ(*clock.mean(), 40);
  clock.start_window();
  EXPECT_FALSE(clock.mean().has_value());
  clock.resume(145);  // a log line
  EXPECT_EQ(clock.step_done(152), 145);
  EXPECT_EQ(*clock.mean(), 7);
  clock.start_window();
  clock.resume(153);
  clock.step_done(161);
  EXPECT_EQ(*clock.mean(), 8);
  EXPECT_EQ(*clock.fastest(), 7);
}

TEST(StepClock, OverlappingStepsAreNotCountedTwice) {
  // Three steps are started at 0, 1 and 2; each takes the device 10, one after another.
  StepClock clock;
  clock.resume(0);
  EXPECT_EQ(clock.step_done(10), 0);
  EXPECT_EQ(clock.step_done(20), 10);
  EXPECT_EQ(clock.step_done(30), 20);
  EXPECT_EQ(*clock.mean(), 10);
  EXPECT_EQ(*clock.fastest(), 10);
}

TEST(StepClock, ALateReadingDoesNotShortenSteps) {
  // A batch takes 8 and the device 2: steps are done at 10, 18 and 26, and their reports are read
  // together at the end. What counts is when they were done.
  StepClock clock;
  clock.resume(0);
  for (const double at : {10, 18, 26}) clock.step_done(at);
  EXPECT_EQ(*clock.fastest() * 3, 26);
  EXPECT_EQ(*clock.mean() * 3, 26);
}

TEST(StepClock, AnEndThatIsNoticedLateShortensLittle) {
  // Steps of 16; the end of step 20 is noticed just before that of step 21.
  StepClock clock;
  clock.resume(0);
  for (int step = 1; step <= 100; ++step) clock.step_done(16 * step + (step == 20 ? 15 : 0));
  EXPECT_EQ(*clock.mean(), 16);
  EXPECT_EQ(*clock.fastest(), 16 - 15.0 / StepClock::kTogether);
}

TEST(StepClock, FasterStepsInARowAreFound) {
  StepClock clock;
  clock.resume(0);
  double now = 0;
  for (int step = 1; step <= 40; ++step) clock.step_done(now += step > 20 && step <= 30 ? 2 : 5);
  EXPECT_EQ(*clock.fastest(), 2);
}

TEST(StepClock, PausesBelongToNoStep) {
  StepClock clock;
  clock.resume(0);
  clock.step_done(4);
  clock.resume(50);  // an evaluation from 4 on
  clock.resume(90);  // and a checkpoint
  clock.step_done(93);
  clock.step_done(97);
  EXPECT_EQ(*clock.fastest(), 3);
  EXPECT_EQ(*clock.mean() * 3, 4 + 3 + 4);
  clock.start_window();
  clock.resume(98);
  clock.step_done(100);
  EXPECT_EQ(*clock.mean(), 2);
  EXPECT_EQ(*clock.fastest(), 2);
}

TEST(StepClock, TimesThatComeOutOfOrderGiveNoNegativeStep) {
  StepClock clock;
  clock.resume(10);
  clock.step_done(14);
  EXPECT_EQ(clock.step_done(13), 14);
  EXPECT_EQ(clock.step_done(19), 14);
  EXPECT_EQ(*clock.mean(), 3);
  clock.resume(12);  // lies before the last step's end
  EXPECT_EQ(clock.step_done(24), 19);
}

TEST(StepClock, NowDoesNotGoBack) {
  const double first = now_seconds();
  EXPECT_LE(first, now_seconds());
}

}  // namespace
}  // namespace espalier
