// W&B: the run's id over sessions, what its logs hold, and what wandb itself reads and uploads.
#include "espalier/train/wandb.h"

#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <limits>

#include "espalier/base/file.h"
#include "espalier/train/checksum.h"
#include "espalier/train/proto/wandb.pb.h"
#include "espalier/train/tensorboard.h"

namespace espalier {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
constexpr const char* kRecipe = "[model]\nname = \"m\"\nlayers = [1, 2.5]\n[train.x]\ny = true\n";

StepMetrics at_step(int64_t step, double loss) {
  StepMetrics m;
  m.step = step;
  m.loss = loss;
  m.lr = 0.0003;
  m.grad_norm = 1.0 / 3;
  m.tokens_per_second = 1000.5;
  m.elapsed_seconds = 1.5 * static_cast<double>(step);
  return m;
}

class Wandb : public testing::Test {
 protected:
  void SetUp() override {
    fs::remove_all(folder_);
    ASSERT_TRUE(make_folders(run_).ok());
    config_.project = "my project";
  }
  void TearDown() override { fs::remove_all(folder_); }

  Result<WandbRun> open(const Json& stored = {}, std::optional<int64_t> step = std::nullopt,
                        bool writes = true) {
    return WandbRun::open(config_, {run_, stored, step, kRecipe, writes});
  }
  std::vector<fs::path> logs() const {
    std::vector<fs::path> out;
    for (const auto& entry : fs::recursive_directory_iterator(run_)) {
      if (entry.path().extension() == ".wandb") out.push_back(entry.path());
    }
    std::sort(out.begin(), out.end());
    return out;
  }
  static std::vector<wandb::Record> records(const fs::path& log) {
    std::vector<wandb::Record> out;
    for (const std::string& bytes : read_wandb_log(log).value_or_throw()) {
      EXPECT_TRUE(out.emplace_back().ParseFromString(bytes));
    }
    return out;
  }
  static std::vector<int64_t> steps(const fs::path& log) {
    std::vector<int64_t> out;
    for (const auto& record : records(log)) {
      if (record.has_history()) out.push_back(record.history().step().num());
    }
    return out;
  }
  static Json row_of(const StepMetrics& metrics) {
    Json row = {{"_step", metrics.step}};
    for (const auto& [name, number] : named_scalars(metrics)) row[name] = number;
    return row;
  }

  fs::path folder_ = fs::temp_directory_path() / "espalier_wandb_test";
  fs::path run_ = folder_ / "a run";
  WandbConfig config_;
};

TEST(Checksum, OfKnownTexts) {
  // RFC 3720, appendix B.4, and both polynomials' usual check values.
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43u);
  EXPECT_EQ(crc32c(""), 0u);
  EXPECT_EQ(crc32("123456789"), 0xcbf43926u);
  EXPECT_EQ(crc32(""), 0u);
}

TEST_F(Wandb, LogsHoldRecordsOfAnyLength) {
  const fs::path path = folder_ / "log";
  // Around the ends of blocks: 32768 bytes less the file's header and a chunk's.
  for (const size_t first : {0, 1, 32746, 32747, 32748, 32753, 32754, 32755, 100000}) {
    const std::vector<std::string> records = {std::string(first, 'a'), "", "b",
                                              std::string(70000, 'c'), "d"};
    {
      auto writer = WandbLogWriter::create(path).value_or_throw();
      for (const auto& record : records) ASSERT_TRUE(writer.write(record).ok());
      EXPECT_FALSE(WandbLogWriter::create(path).ok());
    }
    EXPECT_EQ(read_file(path).value_or_throw(), wandb_log(records));
    EXPECT_EQ(read_wandb_log(path).value_or_throw(), records) << first;
    fs::remove(path);
  }
}

TEST_F(Wandb, LogsThatAreCutOffOrAltered) {
  const fs::path path = folder_ / "log";
  const std::string good = wandb_log({"first", std::string(40000, 'x'), "last"});
  for (size_t size = 7; size < good.size(); size += 1997) {
    ASSERT_TRUE(write_file(path, good.substr(0, size)).ok());
    const auto records = read_wandb_log(path);
    ASSERT_TRUE(records.ok()) << records.failure().message;
    EXPECT_LT(records->size(), 3u);
  }
  for (const size_t at : {size_t{0}, size_t{7}, size_t{14}, good.size() - 1}) {
    std::string altered = good;
    altered[at] = static_cast<char>(altered[at] ^ 1);
    ASSERT_TRUE(write_file(path, altered).ok());
    const auto records = read_wandb_log(path);
    ASSERT_FALSE(records.ok()) << at;
    EXPECT_EQ(records.failure().code, Code::kDataLoss);
    EXPECT_NE(records.failure().message.find(path.string()), std::string::npos);
  }
}

TEST_F(Wandb, ANewRunGetsAnIdAndAFileOfIt) {
  const auto run = open();
  ASSERT_TRUE(run.ok()) << run.failure().message;
  const std::string id = run->json().at("id");
  EXPECT_EQ(id.size(), 8u);
  EXPECT_EQ(id.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789"), std::string::npos) << id;
  const Json expected = {
      {"project", "my project"}, {"entity", nullptr}, {"name", "a run"}, {"id", id}};
  EXPECT_EQ(run->json(), expected);
  EXPECT_EQ(Json::parse(read_file(run_ / "wandb.json").value_or_throw()), expected);
  EXPECT_EQ(run->command(), "wandb sync '" + (run_ / "wandb").string() + "'/offline-run-*-" + id);
  fs::remove_all(run_ / "wandb.json");
  EXPECT_NE(open()->json().at("id"), id);
}

TEST_F(Wandb, TheRecipeGivesNamesAndId) {
  config_.name = "first try";
  config_.entity = "team";
  config_.id = "Known_run-1";
  const auto run = open();
  ASSERT_TRUE(run.ok());
  EXPECT_EQ(run->json(), (Json{{"project", "my project"},
                               {"entity", "team"},
                               {"name", "first try"},
                               {"id", "Known_run-1"}}));
  ASSERT_EQ(logs().size(), 1u);
  const auto all = records(logs()[0]);
  ASSERT_EQ(all.size(), 2u);  // on the disk while the run goes on
  EXPECT_EQ(all[0].header().version_info().producer(), "espalier");
  const auto& about = all[1].run();
  EXPECT_EQ(about.run_id(), "Known_run-1");
  EXPECT_EQ(about.project(), "my project");
  EXPECT_EQ(about.entity(), "team");
  EXPECT_EQ(about.display_name(), "first try");
  EXPECT_GT(about.start_time().seconds(), 1600000000);
  ASSERT_EQ(about.config().update_size(), 2);
  EXPECT_EQ(about.config().update(0).key(), "model");
  EXPECT_EQ(Json::parse(about.config().update(0).value_json()),
            (Json{{"name", "m"}, {"layers", {1, 2.5}}}));
}

TEST_F(Wandb, RowsHoldEveryScalar) {
  StepMetrics m = at_step(3, std::numeric_limits<double>::quiet_NaN());
  m.val_loss = 2.25;
  m.mfu = 0.5;
  auto run = open();
  ASSERT_TRUE(run->log(m).ok());
  ASSERT_TRUE(run->finish(7).ok());
  const auto all = records(logs()[0]);
  ASSERT_EQ(all.size(), 5u);
  Json row;
  for (const auto& item : all[2].history().item()) row[item.key()] = Json::parse(item.value_json());
  EXPECT_EQ(row.at("train/loss"), "NaN");
  EXPECT_EQ(row.at("train/grad_norm"), 1.0 / 3);
  EXPECT_EQ(row.at("train/mfu"), 0.5);
  EXPECT_EQ(row.at("val/loss"), 2.25);
  EXPECT_EQ(row.at("_step"), 3);
  EXPECT_EQ(row.at("_runtime"), 4.5);
  EXPECT_EQ(all[2].history().step().num(), 3);
  EXPECT_EQ(all[3].summary().update_size(), all[2].history().item_size());
  EXPECT_EQ(all[4].exit().exit_code(), 7);
  EXPECT_EQ(all[4].exit().runtime(), 4);
  for (size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i].num(), static_cast<int64_t>(i) + 1);
}

TEST_F(Wandb, AResumedRunGoesOnWithTheIdOfItsCheckpoint) {
  Json stored;
  {
    auto first = open();
    stored = first->json();
    for (const int64_t step : {2, 4, 6}) ASSERT_TRUE(first->log(at_step(step, 1)).ok());
  }
  // The checkpoint knows, even where wandb.json is gone.
  fs::remove(run_ / "wandb.json");
  {
    auto second = open(stored, 4);
    ASSERT_TRUE(second.ok()) << second.failure().message;
    EXPECT_EQ(second->json(), stored);
    EXPECT_EQ(read_file(run_ / "wandb.json").value_or_throw(), stored.dump(1) + "\n");
    ASSERT_TRUE(second->log(at_step(6, 1)).ok());
  }
  ASSERT_EQ(logs().size(), 2u);
  EXPECT_EQ(steps(logs()[0]), (std::vector<int64_t>{2, 4}));  // 6 is logged anew
  EXPECT_EQ(steps(logs()[1]), (std::vector<int64_t>{6}));
  // Stopped before its first checkpoint, a run begins anew, but is the same there.
  {
    auto third = open();
    EXPECT_EQ(third->json(), stored);
  }
  ASSERT_EQ(logs().size(), 3u);
  for (const fs::path& log : logs()) EXPECT_EQ(steps(log), std::vector<int64_t>{});
}

TEST_F(Wandb, WhatIsUploadedStaysAndIsNotLoggedTwice) {
  auto first = open();
  for (const int64_t step : {2, 4, 6}) ASSERT_TRUE(first->log(at_step(step, 1)).ok());
  ASSERT_TRUE(write_file(logs()[0].string() + ".synced", "").ok());
  auto second = open(first->json(), 2);
  for (const int64_t step : {4, 6, 8}) ASSERT_TRUE(second->log(at_step(step, 1)).ok());
  EXPECT_EQ(steps(logs()[0]), (std::vector<int64_t>{2, 4, 6}));
  EXPECT_EQ(steps(logs()[1]), (std::vector<int64_t>{8}));
}

TEST_F(Wandb, AnotherRunsNamesAreRefused) {
  const Json stored = open()->json();
  const auto refused = [&](const WandbConfig& config, const char* part) {
    const auto run = WandbRun::open(config, {run_, stored, 1, kRecipe, true});
    ASSERT_FALSE(run.ok()) << part;
    EXPECT_EQ(run.failure().code, Code::kInvalidArgument);
    EXPECT_NE(run.failure().message.find(part), std::string::npos) << run.failure().message;
  };
  WandbConfig other = config_;
  other.project = "another";
  refused(other, "logging.wandb.project is \"another\"");
  other = config_;
  other.id = "x";
  refused(other, "logging.wandb.id is \"x\"");
  other = config_;
  other.entity = "team";
  refused(other, "logging.wandb.entity is \"team\"");
  ASSERT_TRUE(write_file(run_ / "wandb.json", "{\"id\": \"../x\"}").ok());
  const auto broken = open();
  ASSERT_FALSE(broken.ok());
  EXPECT_EQ(broken.failure().code, Code::kDataLoss);
  EXPECT_NE(broken.failure().message.find("wandb.json"), std::string::npos);
}

TEST_F(Wandb, OtherProcessesWriteNothing) {
  auto run = open({}, std::nullopt, /*writes=*/false);
  ASSERT_TRUE(run.ok());
  EXPECT_TRUE(run->json().is_null());
  ASSERT_TRUE(run->log(at_step(1, 1)).ok());
  ASSERT_TRUE(run->finish(0).ok());
  EXPECT_TRUE(fs::is_empty(run_));
}

TEST_F(Wandb, RecipeTable) {
  const auto read = [](const std::string& text) -> Result<WandbConfig> {
    ESPALIER_ASSIGN(Recipe recipe, Recipe::parse("[wandb]\n" + text, "r.toml"));
    WandbConfig config;
    ESPALIER_TRY(read_table(recipe, "wandb", config));
    return config;
  };
  const auto full = read("project = \"p\"\nname = \"n\"\nentity = \"e\"\nid = \"i-1\"\n");
  ASSERT_TRUE(full.ok());
  EXPECT_TRUE(full->enabled());
  EXPECT_EQ(full->name, "n");
  EXPECT_FALSE(read("project = \"\"\n")->enabled());
  EXPECT_FALSE(read("")->enabled());
  for (const char* bad : {"project = \"a/b\"", "entity = \"a#b\"", "id = \"a b\"", "id = \"\"",
                          "name = \"\"", "proyect = \"x\""}) {
    const auto result = read(bad);
    ASSERT_FALSE(result.ok()) << bad;
    EXPECT_EQ(result.failure().code, Code::kInvalidArgument);
  }
}

TEST_F(Wandb, WandbReadsAndUploadsTheRun) {
  const fs::path source = ESPALIER_SOURCE_DIR;
  const char* given = std::getenv("ESPALIER_TEST_PYTHON");
  const fs::path python = given != nullptr ? given : source / ".deps/test-venv/bin/python";
  if (!fs::exists(python)) {
    GTEST_SKIP() << "no Python with the package wandb: set ESPALIER_TEST_PYTHON to one";
  }
  Json expected = {{"rows", Json::array()}};
  {
    // A session that ends in a crash after step 300, and one that goes on from the checkpoint of
    // step 200: long enough for many blocks.
    auto run = open().value_or_throw();
    auto board = TensorBoardWriter::open(run_).value_or_throw();
    for (int64_t step = 1; step <= 300; ++step) {
      const StepMetrics m = at_step(step, 1.0 / static_cast<double>(step));
      ASSERT_TRUE(run.log(m).ok());
      ASSERT_TRUE(write_scalars(board, m).ok());
      if (step <= 200) expected["rows"].push_back(row_of(m));
    }
    auto resumed = open(run.json(), 200).value_or_throw();
    auto resumed_board = TensorBoardWriter::open(run_, 200).value_or_throw();
    for (int64_t step = 201; step <= 310; ++step) {
      StepMetrics m = at_step(step, 2.0 / static_cast<double>(step));
      m.val_loss = 3;
      m.mfu = 0.25;
      m.memory_bytes = 4096;
      m.seconds_left = 7;
      ASSERT_TRUE(resumed.log(m).ok());
      ASSERT_TRUE(write_scalars(resumed_board, m).ok());
      expected["rows"].push_back(row_of(m));
    }
    ASSERT_TRUE(resumed.finish(0).ok());
    expected.update(resumed.json());
    expected["config"] = {{"model", {{"name", "m"}, {"layers", {1, 2.5}}}},
                          {"train", {{"x", {{"y", true}}}}}};
    expected["exit_codes"] = {1, 0};
    for (int64_t step = 201; step <= 300; ++step) expected["repeated"].push_back(step);
  }
  const fs::path expected_path = folder_ / "expected.json";
  ASSERT_TRUE(write_file(expected_path, expected.dump()).ok());

  std::string program = python.string();
  std::string script = (source / "tests/python/wandb_test.py").string();
  std::string folder = run_.string(), expectation = expected_path.string();
  char* const arguments[] = {program.data(), script.data(), folder.data(), expectation.data(),
                             nullptr};
  pid_t child = 0;
  ASSERT_EQ(::posix_spawn(&child, program.c_str(), nullptr, nullptr, arguments, environ), 0);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  constexpr int kNoWandb = 77;
  if (WEXITSTATUS(status) == kNoWandb) GTEST_SKIP() << program << " has no package wandb";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace espalier
