// Checkpoints: round trips, resharding, links, deletion, every kind of damage and a full disk.
#include "espalier/checkpoint/store.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <functional>

#include "espalier/checkpoint/folder.h"
#include "tests/unit/checkpoint_fixture.h"

namespace espalier {
namespace {
namespace fs = std::filesystem;

using Names = std::set<std::string>;

TEST_F(CheckpointTest, RoundTripWithFilesByGroup) {
  save(10);
  EXPECT_EQ(entry_names(root_), (Names{"10", "latest"}));
  EXPECT_EQ(fs::read_symlink(root_ / "latest"), "10");
  EXPECT_EQ(entry_names(root_ / "10"),
            (Names{"index.json", "metadata.json", "model-00001-of-00001.safetensors",
                   "optimizer-00001-of-00001.safetensors", "state-00001-of-00001.safetensors"}));
  for (const char* which : {"latest", "10"}) {
    const auto reader = CheckpointReader::open(root_, which);
    ASSERT_TRUE(reader.ok()) << reader.failure().message;
    EXPECT_EQ(reader->step(), 10);
    EXPECT_EQ(sample_problem(*reader), "");
    EXPECT_EQ(reader->metadata().at("val_loss"), 2.5);
    ASSERT_NE(reader->find("layers.0.bias"), nullptr);
    EXPECT_EQ(reader->find("layers.0.bias")->dtype, DType::kBF16);
  }
}

TEST_F(CheckpointTest, GroupsAreCutIntoFilesOfBoundedSize) {
  // A weight has 12288 bytes: two fill a file of 20000 each alone.
  ASSERT_TRUE(save_sample(root_, 1, 1, {}, 20000).ok());
  EXPECT_TRUE(fs::exists(root_ / "1" / "model-00001-of-00002.safetensors"));
  EXPECT_TRUE(fs::exists(root_ / "1" / "model-00002-of-00002.safetensors"));
  EXPECT_TRUE(fs::exists(root_ / "1" / "optimizer-00001-of-00001.safetensors"));
  EXPECT_EQ(opened_step("1"), 1);
  // Smaller than any tensor: each has its own file.
  ASSERT_TRUE(save_sample(root_, 2, 2, {}, 1).ok());
  EXPECT_TRUE(fs::exists(root_ / "2" / "model-00003-of-00003.safetensors"));
  EXPECT_EQ(opened_step("latest"), 2);
}

TEST_F(CheckpointTest, AShardedTensorIsReadInOtherSlices) {
  auto writer = CheckpointWriter::begin(root_, 3, {{{"w", DType::kS32, {6, 10}}, "model"}});
  ASSERT_TRUE(writer.ok()) << writer.failure().message;
  // Written as columns of uneven width, the last first ...
  for (const auto& [begin, width] :
       std::vector<std::pair<int64_t, int64_t>>{{7, 3}, {0, 4}, {4, 3}}) {
    std::vector<int32_t> piece;
    for (int64_t i = 0; i < 6; ++i) {
      for (int64_t j = begin; j < begin + width; ++j)
        piece.push_back(static_cast<int32_t>(i * 10 + j));
    }
    ASSERT_TRUE(
        writer->write_piece("w", {0, begin}, {6, width}, std::as_bytes(std::span(piece))).ok());
  }
  ASSERT_TRUE(writer->commit(nlohmann::json::object()).ok());
  // ... and read as a 3 x 2 grid of devices would.
  const auto reader = CheckpointReader::open(root_, "latest");
  ASSERT_TRUE(reader.ok()) << reader.failure().message;
  for (int64_t row = 0; row < 6; row += 2) {
    for (int64_t column = 0; column < 10; column += 5) {
      std::vector<int32_t> out(10);
      ASSERT_TRUE(
          reader->read_slice("w", {row, column}, {2, 5}, std::as_writable_bytes(std::span(out)))
              .ok());
      for (int64_t k = 0; k < 10; ++k) {
        EXPECT_EQ(out[static_cast<size_t>(k)], (row + k / 5) * 10 + column + k % 5);
      }
    }
  }
}

TEST_F(CheckpointTest, AnUnknownTensorNamesTheNearest) {
  save(1);
  const auto reader = CheckpointReader::open(root_, "1");
  const auto read = reader->read("layer.0.weight");
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.failure().code, Code::kNotFound);
  EXPECT_NE(
      read.failure().message.find("the nearest names are 'layers.0.weight', 'layers.1.weight'"),
      std::string::npos)
      << read.failure().message;
  EXPECT_EQ(reader->find("layer.0.weight"), nullptr);
}

TEST_F(CheckpointTest, KeepsTheNewestAndTheBest) {
  save(1, {.keep = 2});
  save(2, {.best = true, .keep = 2});
  for (int step = 3; step <= 6; ++step) save(step, {.keep = 2});
  EXPECT_EQ(entry_names(root_), (Names{"2", "5", "6", "best", "latest"}));
  EXPECT_EQ(opened_step("best"), 2);
  save(7, {.best = true, .keep = 2});
  EXPECT_EQ(entry_names(root_), (Names{"6", "7", "best", "latest"}));
  EXPECT_EQ(opened_step("best"), 7);
  EXPECT_EQ(opened_step("latest"), 7);
  save(8);  // 0 keeps all
  EXPECT_EQ(entry_names(root_), (Names{"6", "7", "8", "best", "latest"}));
}

TEST_F(CheckpointTest, ARewoundRunKeepsItsOwnCheckpointsAndPassesTheOthers) {
  for (int step : {10, 20, 30, 40}) save(step);
  save(25, {.keep = 2});  // resumed from 20
  EXPECT_EQ(entry_names(root_), (Names{"20", "25", "30", "40", "latest"}));
  EXPECT_EQ(opened_step("latest"), 25);
  // Damaged, the run's own past goes before the abandoned future.
  fs::resize_file(root_ / "25" / "metadata.json", 3);
  EXPECT_EQ(opened_step("latest", 2), 20);
}

TEST_F(CheckpointTest, TheSameStepAgainReplacesIt) {
  save(5);
  const auto again = save_sample(root_, 5, 77);
  ASSERT_TRUE(again.ok()) << again.failure().message;
  EXPECT_EQ(entry_names(root_), (Names{"5", "latest"}));
  const auto reader = CheckpointReader::open(root_, "5");
  ASSERT_TRUE(reader.ok()) << reader.failure().message;
  EXPECT_EQ(reader->metadata().at("seed"), 77);
  EXPECT_EQ(sample_problem(*reader), "");
}

TEST_F(CheckpointTest, WithoutCommitNothingRemainsAndOneWriterAtATime) {
  save(1);
  {
    auto writer = CheckpointWriter::begin(root_, 2, sample_tensors());
    ASSERT_TRUE(writer.ok());
    EXPECT_EQ(entry_names(root_).size(), 3u);
    const auto second = CheckpointWriter::begin(root_, 3, sample_tensors());
    ASSERT_FALSE(second.ok());
    EXPECT_EQ(second.failure().code, Code::kFailedPrecondition);
    EXPECT_NE(second.failure().message.find("another writer"), std::string::npos);
    EXPECT_EQ(opened_step("latest"), 1);
  }
  EXPECT_EQ(entry_names(root_), (Names{"1", "latest"}));

  auto incomplete = CheckpointWriter::begin(root_, 2, sample_tensors());
  ASSERT_TRUE(incomplete.ok());
  const auto committed = incomplete->commit(nlohmann::json::object());
  ASSERT_FALSE(committed.ok());
  EXPECT_EQ(committed.failure().code, Code::kFailedPrecondition);
  EXPECT_NE(committed.failure().message.find("elements written"), std::string::npos);
  EXPECT_EQ(entry_names(root_), (Names{"1", "latest"}));
  EXPECT_EQ(incomplete->commit(nlohmann::json::object()).failure().code, Code::kFailedPrecondition);
}

TEST_F(CheckpointTest, BadArgumentsAreRefused) {
  const auto refused = [&](const Result<CheckpointWriter>& begun, const std::string& part) {
    ASSERT_FALSE(begun.ok());
    EXPECT_EQ(begun.failure().code, Code::kInvalidArgument);
    EXPECT_NE(begun.failure().message.find(part), std::string::npos) << begun.failure().message;
  };
  const TensorInfo a{"a", DType::kF32, {2}};
  refused(CheckpointWriter::begin(root_, -1, {}), "must be >= 0");
  refused(CheckpointWriter::begin(root_, 1, {{a, "model"}, {a, "optimizer"}}), "listed twice");
  refused(CheckpointWriter::begin(root_, 1, {{a, "../up"}}), "lower-case letters");
  auto writer = CheckpointWriter::begin(root_, 1, {});
  ASSERT_TRUE(writer.ok());
  EXPECT_EQ(writer->commit(nlohmann::json::array()).failure().code, Code::kInvalidArgument);
  EXPECT_EQ(CheckpointReader::open(root_, "newest").failure().code, Code::kInvalidArgument);
}

TEST_F(CheckpointTest, NothingThereIsNotFound) {
  EXPECT_EQ(CheckpointReader::open(root_, "latest").failure().code, Code::kNotFound);
  fs::create_directories(root_);
  const auto none = CheckpointReader::open(root_, "latest");
  EXPECT_EQ(none.failure().code, Code::kNotFound);
  EXPECT_NE(none.failure().message.find("no checkpoint in"), std::string::npos);
  save(4);
  save(8);
  EXPECT_EQ(CheckpointReader::open(root_, "best").failure().code, Code::kNotFound);
  const auto absent = CheckpointReader::open(root_, "6");
  EXPECT_EQ(absent.failure().code, Code::kNotFound);
  EXPECT_NE(absent.failure().message.find("there are: 4, 8"), std::string::npos);
}

// Ways to damage a checkpoint's folder, and what must be said of it.
struct Damage {
  const char* name;
  std::function<void(const fs::path&)> apply;
  std::vector<std::string> said;
  bool seen_quickly = true;
};

const char* const kModel = "model-00001-of-00001.safetensors";

void flip_byte(const fs::path& file, std::streamoff from_end) {
  std::string text = read_file(file).value_or_throw();
  text[text.size() - static_cast<size_t>(from_end)] ^= 1;
  write_file(file, text).value_or_throw();
}

void edit_index(const fs::path& folder, const std::function<void(nlohmann::json&)>& edit) {
  auto index = nlohmann::json::parse(read_file(folder / "index.json").value_or_throw());
  edit(index);
  write_file(folder / "index.json", index.dump()).value_or_throw();
}

std::vector<Damage> damages() {
  return {
      {"missing", [](const fs::path& f) { fs::remove(f / kModel); }, {kModel, "is missing"}},
      {"truncated",
       [](const fs::path& f) { fs::resize_file(f / kModel, 1000); },
       {kModel, "is truncated: expected ", "it has 1000"}},
      {"grown",
       [](const fs::path& f) { fs::resize_file(f / kModel, 100000); },
       {kModel, "has grown: expected ", "it has 100000"}},
      {"altered",
       [](const fs::path& f) { flip_byte(f / kModel, 5); },
       {kModel, "was altered: its SHA-256 is"},
       false},
      {"altered metadata",
       [](const fs::path& f) { flip_byte(f / "metadata.json", 4); },
       {"metadata.json", "was altered"},
       false},
      {"no index",
       [](const fs::path& f) { fs::remove(f / "index.json"); },
       {"index.json", "No such file"}},
      {"cut index",
       [](const fs::path& f) { fs::resize_file(f / "index.json", 50); },
       {"index.json", "is not JSON"}},
      {"another format",
       [](const fs::path& f) { edit_index(f, [](auto& j) { j["format"] = "zip"; }); },
       {"is no checkpoint index"}},
      {"a later version",
       [](const fs::path& f) { edit_index(f, [](auto& j) { j["version"] = 2; }); },
       {"has version 2; this program reads version 1"}},
      {"a file outside",
       [](const fs::path& f) {
         edit_index(f, [](auto& j) { j["files"]["../x"] = j["files"]["metadata.json"]; });
       },
       {"file name '../x'"}},
      {"a file unlisted",
       [](const fs::path& f) { edit_index(f, [](auto& j) { j["files"].erase(kModel); }); },
       {"was altered: it lists tensor 'layers.0.bias'"}},
      {"a tensor unlisted",
       [](const fs::path& f) { edit_index(f, [](auto& j) { j["weight_map"].erase("step"); }); },
       {"was altered: it does not list tensor 'step'"}},
      {"gone",
       [](const fs::path& f) { fs::remove_all(f); },
       {"names checkpoint 3, which is missing"}},
  };
}

TEST_F(CheckpointTest, DamageIsNamedAndTheNewestWholeOneIsTaken) {
  for (const Damage& damage : damages()) {
    SCOPED_TRACE(damage.name);
    fs::remove_all(root_);
    for (int step : {1, 2, 3}) save(step);
    damage.apply(root_ / "3");
    const auto reader = CheckpointReader::open(root_, "latest");
    ASSERT_TRUE(reader.ok()) << reader.failure().message;
    EXPECT_EQ(reader->step(), 2);
    EXPECT_EQ(sample_problem(*reader), "");
    ASSERT_EQ(reader->warnings().size(), 2u);
    for (const std::string& part : damage.said) {
      EXPECT_NE(reader->warnings()[0].find(part), std::string::npos) << reader->warnings()[0];
    }
    EXPECT_EQ(reader->warnings()[1], "using checkpoint 2 instead");
    // Asked for by its number there is no other one to take.
    const auto explicit_one = CheckpointReader::open(root_, "3");
    ASSERT_FALSE(explicit_one.ok());
    if (fs::exists(root_ / "3")) {
      for (const std::string& part : damage.said) {
        EXPECT_NE(explicit_one.failure().message.find(part), std::string::npos);
      }
    }
    const auto quick = CheckpointReader::open(root_, "latest", {.quick = true});
    ASSERT_TRUE(quick.ok());
    EXPECT_EQ(quick->step(), damage.seen_quickly ? 2 : 3);
  }
}

TEST_F(CheckpointTest, AllDamagedFailsAndListsEverything) {
  for (int step : {1, 2}) save(step, {.best = true});
  fs::remove(root_ / "1" / kModel);
  fs::resize_file(root_ / "2" / kModel, 10);
  fs::remove(root_ / "2" / "metadata.json");
  const auto latest = CheckpointReader::open(root_, "latest");
  ASSERT_FALSE(latest.ok());
  EXPECT_EQ(latest.failure().code, Code::kDataLoss);
  for (const std::string part :
       {"checkpoint '2' is damaged", "it has 10", "metadata.json' is missing",
        "checkpoint '1' is damaged", "restore the files"}) {
    EXPECT_NE(latest.failure().message.find(part), std::string::npos) << latest.failure().message;
  }
  const auto best = CheckpointReader::open(root_, "best");
  ASSERT_FALSE(best.ok());
  EXPECT_EQ(best.failure().code, Code::kDataLoss);
}

TEST_F(CheckpointTest, LinksMayBeLostOrCopiedAsFolders) {
  for (int step : {1, 2}) save(step);
  fs::remove(root_ / "latest");
  EXPECT_EQ(opened_step("latest", 2), 2);
  fs::create_symlink("nowhere", root_ / "latest");
  EXPECT_EQ(opened_step("latest", 2), 2);
  // As a copy makes it that follows links.
  fs::remove(root_ / "latest");
  fs::copy(root_ / "1", root_ / "latest");
  fs::copy(root_ / "1", root_ / "best");
  EXPECT_EQ(opened_step("latest"), 1);
  EXPECT_EQ(opened_step("best"), 1);
  save(3, {.best = true});
  EXPECT_EQ(fs::read_symlink(root_ / "latest"), "3");
  EXPECT_EQ(fs::read_symlink(root_ / "best"), "3");
  EXPECT_EQ(entry_names(root_), (Names{"1", "2", "3", "best", "latest"}));
}

TEST_F(CheckpointTest, LeftOversAreRemovedAndAnAsideStepComesBack) {
  for (int step : {1, 2}) save(step);
  fs::create_directories(root_ / ".9.123.tmp");
  ASSERT_TRUE(write_file(root_ / ".9.123.tmp" / "half", "x").ok());
  fs::create_symlink("9", root_ / ".latest.123.tmp");
  fs::copy(root_ / "1", root_ / ".1.123.old");
  fs::rename(root_ / "2", root_ / ".2.123.old");  // killed before the new one took its place
  EXPECT_EQ(opened_step("latest"), 2);
  save(3);
  EXPECT_EQ(entry_names(root_), (Names{"1", "2", "3", "latest"}));
  EXPECT_EQ(opened_step("2"), 2);
}

TEST_F(CheckpointTest, AFileSizeLimitIsReportedAndLeavesNothing) {
  save(1);
  struct rlimit former {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &former), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const struct rlimit small = {8192, former.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const auto saved = save_sample(root_, 2, 2);
  ::setrlimit(RLIMIT_FSIZE, &former);
  std::signal(SIGXFSZ, handler);
  ASSERT_FALSE(saved.ok());
  EXPECT_EQ(saved.failure().code, Code::kResourceExhausted) << saved.failure().message;
  for (const std::string part : {"checkpoint 2 was not saved", "cannot reserve", kModel,
                                 "ulimit -f", "earlier checkpoints are untouched"}) {
    EXPECT_NE(saved.failure().message.find(part), std::string::npos) << saved.failure().message;
  }
  EXPECT_EQ(entry_names(root_), (Names{"1", "latest"}));
  EXPECT_EQ(opened_step("latest"), 1);
}

TEST(CheckpointFolder, StepsAreWrittenOneWayOnly) {
  EXPECT_EQ(parse_step("0"), 0);
  EXPECT_EQ(parse_step("1200"), 1200);
  for (const char* text : {"", "-1", "007", "+1", "1.5", "12x", " 1", "99999999999999999999"}) {
    EXPECT_EQ(parse_step(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace espalier
