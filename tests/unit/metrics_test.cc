// metrics.jsonl: its text, going on after a step, and torn lines.
#include "espalier/train/metrics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "espalier/base/file.h"

namespace espalier {
namespace {

namespace fs = std::filesystem;

class Metrics : public testing::Test {
 protected:
  void SetUp() override {
    fs::remove_all(folder_);
    ASSERT_TRUE(make_folders(folder_).ok());
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string text() const { return std::move(read_file(path_)).value_or_throw(); }

  fs::path folder_ = fs::temp_directory_path() / "espalier_metrics_test";
  fs::path path_ = folder_ / "metrics.jsonl";
};

StepMetrics at_step(int64_t step) {
  StepMetrics m;
  m.step = step;
  m.loss = 2.5;
  m.lr = 0.0003;
  m.grad_norm = 1;
  m.tokens_per_second = 1000.5;
  m.elapsed_seconds = 10.0 * static_cast<double>(step);
  return m;
}

TEST_F(Metrics, KeysStandInTheFixedOrder) {
  StepMetrics m = at_step(3);
  EXPECT_EQ(to_json(m),
            R"({"step":3,"loss":2.5,"lr":0.0003,"grad_norm":1.0,"tokens_per_second":1000.5,)"
            R"("elapsed_seconds":30.0,"mfu":null,"memory_bytes":null,"eta_seconds":null})");
  m.step_seconds = 0.125;
  m.mfu = 0.5;
  m.memory_bytes = 1024;
  m.seconds_left = 12.5;
  m.skipped_steps = 2;
  m.val_loss = 2.25;
  m.extra = {{"z", 1}, {"aux_loss", 0.5}};
  EXPECT_EQ(
      to_json(m),
      R"({"step":3,"loss":2.5,"lr":0.0003,"grad_norm":1.0,"tokens_per_second":1000.5,)"
      R"("step_seconds":0.125,"elapsed_seconds":30.0,"mfu":0.5,"memory_bytes":1024.0,"eta_seconds":12.5,)"
      R"("skipped_steps":2,"val_loss":2.25,"z":1.0,"aux_loss":0.5})");
}

TEST_F(Metrics, NonFiniteNumbersAreNull) {
  StepMetrics m = at_step(1);
  m.loss = std::numeric_limits<double>::quiet_NaN();
  m.grad_norm = std::numeric_limits<double>::infinity();
  const std::string line = to_json(m);
  EXPECT_NE(line.find(R"("loss":null)"), std::string::npos) << line;
  EXPECT_NE(line.find(R"("grad_norm":null)"), std::string::npos) << line;
  const auto back = metrics_from_json(line);
  ASSERT_TRUE(back.has_value());
  EXPECT_TRUE(std::isnan(back->loss));
  EXPECT_FALSE(back->mfu.has_value());
  EXPECT_FALSE(back->memory_bytes.has_value());
  EXPECT_TRUE(std::isnan(back->seconds_left));
  EXPECT_EQ(back->skipped_steps, 0);
  EXPECT_EQ(back->lr, m.lr);
}

TEST_F(Metrics, NumbersComeBackBitForBit) {
  StepMetrics m = at_step(7);
  m.loss = 1.0 / 3;
  m.step_seconds = 1.0 / 9;
  m.val_loss = 1e-300;
  m.mfu = 0.1 + 0.2;
  m.memory_bytes = 1e15 + 1;
  m.seconds_left = 1.0 / 7;
  m.skipped_steps = 3;
  m.extra = {{"aux", 0.1}};
  const auto back = metrics_from_json(to_json(m));
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(back->step, 7);
  EXPECT_EQ(back->loss, m.loss);
  EXPECT_EQ(back->step_seconds, m.step_seconds);
  EXPECT_EQ(back->val_loss, m.val_loss);
  EXPECT_EQ(back->mfu, m.mfu);
  EXPECT_EQ(back->memory_bytes, m.memory_bytes);
  EXPECT_EQ(back->seconds_left, m.seconds_left);
  EXPECT_EQ(back->skipped_steps, 3);
  EXPECT_EQ(back->extra, m.extra);
}

TEST_F(Metrics, LinesOfFewerKeysAreRead) {
  const auto back = metrics_from_json(R"({"step":2,"loss":1.5})");
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(back->loss, 1.5);
  EXPECT_TRUE(std::isnan(back->lr));
  EXPECT_TRUE(std::isnan(back->seconds_left));
  EXPECT_FALSE(back->step_seconds || back->mfu || back->memory_bytes || back->val_loss);
}

TEST_F(Metrics, ScalarsLeaveOutWhatIsNotKnown) {
  using Scalars = std::vector<std::pair<std::string, double>>;
  StepMetrics m = at_step(3);
  EXPECT_EQ(named_scalars(m), (Scalars{{"train/loss", 2.5},
                                       {"train/learning_rate", 0.0003},
                                       {"train/grad_norm", 1},
                                       {"train/tokens_per_second", 1000.5}}));
  m.step_seconds = 0.5;
  m.mfu = 0.25;
  m.memory_bytes = 7;
  m.seconds_left = 8;
  m.skipped_steps = 1;
  m.val_loss = 2;
  m.extra = {{"z_loss", 0.5}};
  const Scalars all = named_scalars(m);
  EXPECT_EQ(Scalars(all.begin() + 4, all.end()), (Scalars{{"train/step_seconds", 0.5},
                                                          {"train/mfu", 0.25},
                                                          {"train/memory_bytes", 7},
                                                          {"train/eta_seconds", 8},
                                                          {"train/skipped_steps", 1},
                                                          {"val/loss", 2},
                                                          {"train/z_loss", 0.5}}));
}

TEST_F(Metrics, EachLineIsInTheFileAtOnce) {
  auto writer = MetricsWriter::create(path_);
  ASSERT_TRUE(writer.ok());
  ASSERT_TRUE(writer->write(at_step(1)).ok());
  EXPECT_EQ(text(), to_json(at_step(1)) + "\n");
  ASSERT_TRUE(writer->write(at_step(2)).ok());
  EXPECT_EQ(read_metrics(path_)->size(), 2u);
}

TEST_F(Metrics, ResumeDropsLaterAndTornLines) {
  std::string lines;
  for (int64_t step = 1; step <= 4; ++step) lines += to_json(at_step(step)) + "\n";
  ASSERT_TRUE(write_file(path_, lines + R"({"step":2,"lo)").ok());
  {
    auto writer = MetricsWriter::resume(path_, 2);
    ASSERT_TRUE(writer.ok());
    EXPECT_EQ(writer->resumed_seconds(), 20.0);
    ASSERT_TRUE(writer->write(at_step(3)).ok());
  }
  std::string expected;
  for (int64_t step = 1; step <= 3; ++step) expected += to_json(at_step(step)) + "\n";
  EXPECT_EQ(text(), expected);
}

TEST_F(Metrics, ResumeWithoutAFileStartsOne) {
  auto writer = MetricsWriter::resume(path_, 5);
  ASSERT_TRUE(writer.ok());
  EXPECT_EQ(writer->resumed_seconds(), 0.0);
  ASSERT_TRUE(writer->write(at_step(6)).ok());
  EXPECT_EQ(read_metrics(path_)->at(0).step, 6);
}

TEST_F(Metrics, FailuresNameThePath) {
  const auto writer = MetricsWriter::create(folder_ / "missing" / "metrics.jsonl");
  ASSERT_FALSE(writer.ok());
  EXPECT_NE(writer.failure().message.find((folder_ / "missing").string()), std::string::npos);
  EXPECT_FALSE(read_metrics(path_).ok());
}

}  // namespace
}  // namespace espalier
