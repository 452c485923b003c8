// Event files: framing, checksums, events, and what TensorBoard itself reads from them.
#include "espalier/train/tensorboard.h"

#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "espalier/base/file.h"
#include "espalier/train/proto/event.pb.h"

namespace espalier {
namespace {

namespace fs = std::filesystem;

class TensorBoard : public testing::Test {
 protected:
  void SetUp() override {
    fs::remove_all(folder_);
    ASSERT_TRUE(make_folders(folder_).ok());
  }
  void TearDown() override { fs::remove_all(folder_); }

  TensorBoardWriter open(std::optional<int64_t> resumed_step = std::nullopt) {
    return TensorBoardWriter::open(folder_, resumed_step).value_or_throw();
  }
  static std::vector<tensorboard::Event> events(const fs::path& path) {
    std::vector<tensorboard::Event> out;
    for (const auto& record : read_records(path).value_or_throw()) {
      EXPECT_TRUE(out.emplace_back().ParseFromString(record));
    }
    return out;
  }

  fs::path folder_ = fs::temp_directory_path() / "espalier_tensorboard_test";
};

TEST_F(TensorBoard, WritesVersionScalarsAndTexts) {
  auto writer = open();
  EXPECT_TRUE(writer.path().filename().string().starts_with("events.out.tfevents."));
  ASSERT_TRUE(writer.scalar("train/loss", 20, 2.5).ok());
  ASSERT_TRUE(writer.text("samples", 20, "To be\nor not").ok());
  // Read while the writer is open: every record is out already.
  const auto all = events(writer.path());
  ASSERT_EQ(all.size(), 4u);
  EXPECT_EQ(all[0].file_version(), "brain.Event:2");
  EXPECT_GT(all[0].wall_time(), 1.6e9);
  EXPECT_EQ(all[1].session_log().status(), tensorboard::SessionLog::START);
  EXPECT_EQ(all[1].step(), 0);
  EXPECT_EQ(all[2].step(), 20);
  EXPECT_EQ(all[2].summary().value(0).tag(), "train/loss");
  EXPECT_EQ(all[2].summary().value(0).simple_value(), 2.5f);
  const auto& text = all[3].summary().value(0);
  EXPECT_EQ(text.metadata().plugin_data().plugin_name(), "text");
  EXPECT_EQ(text.tensor().string_val(0), "To be\nor not");
}

TEST_F(TensorBoard, WritesTheScalarsOfALoggedStep) {
  auto writer = open();
  StepMetrics m;
  m.step = 7;
  m.loss = 2.5;
  m.mfu = 0.25;
  m.val_loss = 3;
  ASSERT_TRUE(write_scalars(writer, m).ok());
  std::vector<std::pair<std::string, double>> seen;
  for (const auto& event : events(writer.path())) {
    if (!event.has_summary()) continue;
    EXPECT_EQ(event.step(), 7);
    seen.emplace_back(event.summary().value(0).tag(), event.summary().value(0).simple_value());
  }
  EXPECT_EQ(seen, named_scalars(m));
}

TEST_F(TensorBoard, ResumeStartsALaterFileThatDropsLaterSteps) {
  const auto first = open();
  const auto second = open(10);
  EXPECT_LT(first.path().filename(), second.path().filename());
  const auto all = events(second.path());
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[1].session_log().status(), tensorboard::SessionLog::START);
  EXPECT_EQ(all[1].step(), 11);
}

TEST_F(TensorBoard, DamagedFilesAreDataLoss) {
  auto writer = open();
  ASSERT_TRUE(writer.scalar("loss", 1, 1.0).ok());
  const std::string good = read_file(writer.path()).value_or_throw();
  const fs::path bad = folder_ / "bad";
  for (const size_t at : {size_t{0}, size_t{14}, good.size() - 1}) {
    std::string altered = good;
    altered[at] = static_cast<char>(altered[at] ^ 1);
    ASSERT_TRUE(write_file(bad, altered).ok());
    const auto records = read_records(bad);
    ASSERT_FALSE(records.ok()) << at;
    EXPECT_EQ(records.failure().code, Code::kDataLoss);
  }
  for (size_t size = 1; size < good.size(); size += 7) {
    ASSERT_TRUE(write_file(bad, good.substr(0, size)).ok());
    const auto records = read_records(bad);
    EXPECT_TRUE(!records.ok() || records->size() < 3) << size;
  }
}

TEST_F(TensorBoard, TensorBoardReadsTheFolder) {
  const fs::path source = ESPALIER_SOURCE_DIR;
  const char* given = std::getenv("ESPALIER_TEST_PYTHON");
  const fs::path python = given != nullptr ? given : source / ".deps/test-venv/bin/python";
  if (!fs::exists(python)) {
    GTEST_SKIP() << "no Python with the package tensorboard: set ESPALIER_TEST_PYTHON to one";
  }
  {
    auto first = open();
    for (int64_t step = 1; step <= 6; ++step) {
      ASSERT_TRUE(first.scalar("train/loss", step, 10.0 - static_cast<double>(step)).ok());
    }
    ASSERT_TRUE(first.text("samples", 3, "kept text").ok());
    ASSERT_TRUE(first.text("samples", 6, "dropped text").ok());
  }
  auto second = open(4);
  ASSERT_TRUE(second.scalar("train/loss", 5, 0.5).ok());
  ASSERT_TRUE(second.text("samples", 5, "second text \u00e9").ok());

  std::string program = python.string();
  std::string script = (source / "tests/python/tensorboard_test.py").string();
  std::string folder = folder_.string();
  char* const arguments[] = {program.data(), script.data(), folder.data(), nullptr};
  pid_t child = 0;
  ASSERT_EQ(::posix_spawn(&child, program.c_str(), nullptr, nullptr, arguments, environ), 0);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  constexpr int kNoTensorBoard = 77;
  if (WEXITSTATUS(status) == kNoTensorBoard) {
    GTEST_SKIP() << program << " has no package tensorboard";
  }
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace espalier
