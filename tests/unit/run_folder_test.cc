// A run's folder: who may start where, the lock, and samples.txt.
#include "espalier/train/run_folder.h"

#include <gtest/gtest.h>

#include "espalier/base/file.h"

namespace espalier {
namespace {

namespace fs = std::filesystem;

class RunFolderTest : public testing::Test {
 protected:
  void SetUp() override { fs::remove_all(base_); }
  void TearDown() override { fs::remove_all(base_); }
  static void expect_failure(const Result<RunFolder>& result, Code code, const char* part) {
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.failure().code, code);
    EXPECT_NE(result.failure().message.find(part), std::string::npos) << result.failure().message;
  }

  fs::path base_ = fs::temp_directory_path() / "espalier_run_folder_test";
  fs::path path_ = base_ / "deep" / "run";
};

TEST_F(RunFolderTest, ANewRunNeedsAnEmptyPlace) {
  EXPECT_TRUE(RunFolder::check_new(path_).ok());
  EXPECT_FALSE(fs::exists(base_));
  {
    auto folder = RunFolder::create(path_);
    ASSERT_TRUE(folder.ok()) << folder.failure().message;
    EXPECT_EQ(folder->config(), path_ / "config.toml");
  }
  // Only the lock file is there: a start that failed early can be repeated.
  {
    auto folder = RunFolder::create(path_);
    ASSERT_TRUE(folder.ok()) << folder.failure().message;
    ASSERT_TRUE(folder->write_config("[data]\n").ok());
    EXPECT_EQ(read_file(folder->config()).value_or_throw(), "[data]\n");
  }
  expect_failure(RunFolder::create(path_), Code::kAlreadyExists, "--resume");
  EXPECT_EQ(RunFolder::check_new(path_).failure().code, Code::kAlreadyExists);
  expect_failure(RunFolder::create(path_), Code::kAlreadyExists, "another --run DIR");
  // A folder or file of somebody else's.
  expect_failure(RunFolder::create(base_), Code::kAlreadyExists, "'deep' is in it");
  EXPECT_FALSE(fs::exists(base_ / "run.lock"));
  expect_failure(RunFolder::create(path_ / "config.toml"), Code::kAlreadyExists, "not a folder");
}

TEST_F(RunFolderTest, ResumeNeedsARun) {
  expect_failure(RunFolder::resume(path_), Code::kNotFound, "no config.toml");
  EXPECT_FALSE(fs::exists(path_));
  {
    auto folder = RunFolder::create(path_);
    ASSERT_TRUE(folder->write_config("").ok());
  }
  EXPECT_TRUE(RunFolder::resume(path_).ok());
}

TEST_F(RunFolderTest, OneProcessAtATime) {
  auto folder = RunFolder::create(path_);
  ASSERT_TRUE(folder.ok());
  expect_failure(RunFolder::create(path_), Code::kFailedPrecondition, "another process");
  ASSERT_TRUE(folder->write_config("").ok());
  expect_failure(RunFolder::resume(path_), Code::kFailedPrecondition, "another process");
  RunFolder moved = std::move(*folder);
  expect_failure(RunFolder::resume(path_), Code::kFailedPrecondition, "another process");
  { const RunFolder released = std::move(moved); }
  EXPECT_TRUE(RunFolder::resume(path_).ok());
}

TEST_F(RunFolderTest, DefaultNameHasTheRecipeAndTheTime) {
  const std::string name = RunFolder::default_path("recipes/tiny.toml").string();
  ASSERT_TRUE(name.starts_with("runs/tiny-")) << name;
  // YYYYMMDD-HHMMSS
  const std::string stamp = name.substr(std::string("runs/tiny-").size(), 15);
  ASSERT_EQ(stamp.size(), 15u) << name;
  for (size_t i = 0; i < stamp.size(); ++i) {
    EXPECT_TRUE(i == 8 ? stamp[i] == '-' : (stamp[i] >= '0' && stamp[i] <= '9')) << name;
  }
}

TEST_F(RunFolderTest, SamplesComeBackAndAreTruncated) {
  auto folder = RunFolder::create(path_);
  ASSERT_TRUE(folder.ok());
  EXPECT_TRUE(folder->truncate_samples(3).ok());  // no file yet
  const std::vector<Sample> all = {
      {100, "To be", "To be or not\nto be"},
      {200, "quote \" | ===\n", ""},
      {200, "", "=== step 7 | \"x\" ===\n  === step 8 | \"y\" ===\n\nends with newlines\n\n"},
      {300, "\u00e9", "\u00e9 last"}};
  for (const Sample& sample : all) ASSERT_TRUE(folder->append_sample(sample).ok());
  EXPECT_EQ(read_samples(folder->samples()).value_or_throw(), all);
  const std::string text = read_file(folder->samples()).value_or_throw();
  EXPECT_TRUE(
      text.starts_with("=== step 100 | \"To be\" ===\nTo be or not\nto be\n\n=== step 200"));

  EXPECT_TRUE(folder->truncate_samples(300).ok());
  EXPECT_EQ(read_file(folder->samples()).value_or_throw(), text);
  ASSERT_TRUE(folder->truncate_samples(200).ok());
  EXPECT_EQ(read_samples(folder->samples()).value_or_throw(),
            std::vector<Sample>(all.begin(), all.begin() + 3));
  ASSERT_TRUE(folder->append_sample(all[3]).ok());
  EXPECT_EQ(read_file(folder->samples()).value_or_throw(), text);
  ASSERT_TRUE(folder->truncate_samples(0).ok());
  EXPECT_EQ(read_file(folder->samples()).value_or_throw(), "");
}

TEST_F(RunFolderTest, APromptCutInsideACharacterIsStillAHeader) {
  auto folder = RunFolder::create(path_);
  ASSERT_TRUE(folder->append_sample({1, "\xc3", "x"}).ok());
  EXPECT_EQ(read_samples(folder->samples()).value_or_throw().size(), 1u);
}

}  // namespace
}  // namespace espalier
