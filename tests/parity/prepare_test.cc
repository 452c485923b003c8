// `espalier prepare` as a program: what it makes, prints and leaves behind, with data sets served
// on the loopback.
#include <gtest/gtest.h>

#include <csignal>
#include <cstring>

#include "espalier/base/sha256.h"
#include "espalier/data/bins.h"
#include "tests/support/program.h"
#include "tests/support/shared.h"
#include "tests/unit/data_archives.h"
#include "tests/unit/data_testing.h"
#include "tests/unit/http_server.h"

namespace espalier::test {
namespace {
namespace fs = std::filesystem;

class PrepareTest : public testing::Test {
 protected:
  Ended prepare(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "prepare");
    arguments.insert(arguments.end(), {"--out", out_.string()});
    return run(arguments);
  }
  Ended run(const std::vector<std::string>& arguments) {
    return Child(arguments, folder_ / "child", {{{"no_proxy", "127.0.0.1"}}, 0}).wait();
  }
  std::vector<std::string> made() const {
    std::vector<std::string> names;
    if (!fs::exists(out_)) return names;
    for (const auto& entry : fs::directory_iterator(out_)) {
      names.push_back(entry.path().filename().string());
    }
    std::sort(names.begin(), names.end());
    return names;
  }
  std::string text(const std::string& name) const {
    return read_file(out_ / name).value_or_throw();
  }

  TemporaryFolder folder_;
  const fs::path out_ = folder_ / "out";
};

using Names = std::vector<std::string>;
const Names kBins = {"meta.json", "train.bin", "val.bin"};

TEST_F(PrepareTest, ShakespeareHasNanoGptsNumbers) {
  const auto file = shared_file("data/tinyshakespeare.txt");
  if (!file) GTEST_SKIP() << "no ../shared/data/tinyshakespeare.txt";
  expect_ended(prepare({file->string(), "--tokenizer", "gpt2"}), 0,
               {"301966 tokens of gpt2 (50257 ids)", "36059 tokens", "source = \"bin\""});
  EXPECT_EQ(made(), kBins);
  EXPECT_EQ(fs::file_size(out_ / "train.bin"), 603932U);
  EXPECT_EQ(fs::file_size(out_ / "val.bin"), 72118U);
  expect_ended(prepare({"shakespeare-char", "--from", file->string()}), 0,
               {"1003854 tokens of char (65 ids)", "111540 tokens"});
  EXPECT_EQ(made(), kBins);
}

TEST_F(PrepareTest, ShakespeareIsFetched) {
  const auto file = shared_file("data/tinyshakespeare.txt");
  if (!file) GTEST_SKIP() << "no ../shared/data/tinyshakespeare.txt";
  const std::string content = read_file(*file).value_or_throw();
  Server server(content);
  server.cut_after = 400000;  // three connections
  expect_ended(prepare({"shakespeare-char", "--url", server.url("")}), 0,
               {"1003854 tokens of char", "as expected"});
  EXPECT_EQ(server.requests().size(), 3U);
  EXPECT_NE(server.requests()[0].find("GET /input.txt"), std::string::npos);
  EXPECT_EQ(text("input.txt"), content);
  // Another file is refused by its digest, and nothing is made of it.
  fs::remove_all(out_);
  Server wrong("another text");
  expect_ended(prepare({"shakespeare", "--url", wrong.url("")}), 1, {"SHA-256", "input.txt.bad"});
  EXPECT_EQ(made(), Names{"input.txt.bad"});
}

TEST_F(PrepareTest, OpenWebTextsTarsAreOpenedAndCleaned) {
  const std::string tar = tar_of(
      {{"openwebtext/urlsf_subset00-1_data.xz",
        packed("xz", tar_of({{"0001.txt", " one \n\n\n\none "}, {"0002.txt", "two"}}))},
       {"openwebtext/urlsf_subset00-2_data.xz", packed("xz", tar_of({{"0003.txt", "three"}}))}});
  Server server(tar);
  const Ended ended = prepare({"openwebtext", "--shards", "1", "--url", server.url(""),
                               "--val-fraction", "0", "--tokenizer", "char"});
  expect_ended(ended, 0, {"3 documents", "the server named no digest"});
  EXPECT_NE(server.requests()[0].find("GET /urlsf_subset00.tar"), std::string::npos);
  const auto tokens = [](const std::string& bytes) {
    return std::vector<uint16_t>(reinterpret_cast<const uint16_t*>(bytes.data()),
                                 reinterpret_cast<const uint16_t*>(bytes.data() + bytes.size()));
  };
  // "one \n\none", "two", "three" by the alphabet "\n ehnortw".
  EXPECT_EQ(tokens(text("train.bin")),
            (std::vector<uint16_t>{5, 4, 2, 1, 0, 0, 5, 4, 2, 7, 8, 5, 7, 3, 6, 2, 2}));
  fs::create_directories(folder_ / "local");
  folder_.write("local/urlsf_subset00.tar", tar);
  folder_.write("local/urlsf_subset01.tar", tar);
  expect_ended(prepare({"openwebtext", "--from", (folder_ / "local").string()}), 0,
               {"5 documents", "in 1 document\n"});
}

TEST_F(PrepareTest, FineWebsShardsAreTakenAsTheyAre) {
  std::string shard(1024 + 2 * 100, '\0');
  const int32_t header[3] = {20240520, 1, 100};
  std::memcpy(shard.data(), header, sizeof(header));
  Server server(shard);
  expect_ended(prepare({"fineweb10B", "--shards", "2", "--url", server.url("")}), 0,
               {"200 tokens to train on and 100 for validation"});
  const Names names = {"fineweb_train_000001.bin", "fineweb_train_000001.bin.sha256",
                       "fineweb_train_000002.bin", "fineweb_train_000002.bin.sha256",
                       "fineweb_val_000000.bin",   "fineweb_val_000000.bin.sha256"};
  EXPECT_EQ(made(), names);
  const fs::path local = folder_ / "local";
  fs::rename(out_, local);
  expect_ended(prepare({"fineweb10B", "--from", local.string(), "--shards", "1"}), 0,
               {"100 tokens to train on and 100 for validation"});
  EXPECT_EQ(made(), (Names{"fineweb_train_000001.bin", "fineweb_val_000000.bin"}));
  EXPECT_EQ(text("fineweb_val_000000.bin"), shard);
  // A torn shard is refused before anything is copied.
  fs::remove_all(out_);
  write_file(local / "fineweb_train_000002.bin", shard.substr(0, 1200)).value_or_throw();
  expect_ended(prepare({"fineweb10B", "--from", local.string()}), 1,
               {"fineweb_train_000002.bin", "1200 bytes", "promises 1224"});
  EXPECT_EQ(made(), Names{});
  expect_ended(prepare({"fineweb10B", "--tokenizer", "char"}), 2, {"GPT-2's tokens"});
}

TEST_F(PrepareTest, StoriesHaveTheirTokenFileAndBins) {
  expect_ended(prepare({"stories", "--count", "50", "--tokenizer", "char"}), 0,
               {"50 stories", "source = \"text\"", "source = \"bin\"", "49 documents"});
  EXPECT_EQ(made().size(), 5U);
  const fs::path train = folder_.write("T-train.txt", "one one<|endoftext|>two");
  const fs::path valid = folder_.write("T-valid.txt", "three");
  fs::create_directories(folder_ / "both");
  fs::rename(train, folder_ / "both/T-train.txt");
  folder_.write("both/T-valid.txt", "three<|endoftext|>");
  const Ended by_characters =
      prepare({"tinystories", "--from", (folder_ / "both").string(), "--tokenizer", "char"});
  expect_ended(by_characters, 0, {"T-valid.txt' is not in val.bin"});
  const auto gpt2 = load_tokenizer("gpt2");
  if (!gpt2) GTEST_SKIP() << gpt2.failure().message;
  expect_ended(prepare({"tinystories", "--from", (folder_ / "both").string()}), 0,
               {"train.bin: 5 tokens in 2 documents", "val.bin: 2 tokens in 1 document\n"});
}

TEST_F(PrepareTest, OneTextIsCutAndShortPartsAreWarnedOf) {
  const auto meta = [&] { return parse_bin_meta(text("meta.json"), "meta.json").value_or_throw(); };
  const std::string text = folder_.write("text.txt", std::string(40, 'a')).string();
  const Ended ended = prepare({text, "--tokenizer", "char"});
  expect_ended(ended, 0, {"36 tokens", "4 tokens"});
  EXPECT_EQ(ended.err.find("warning"), std::string::npos) << ended.err;
  EXPECT_EQ(meta().val_fraction, 0.1);
  const std::string few = folder_.write("few.txt", "ten chars!").string();
  expect_ended(prepare({few, "--tokenizer", "char"}), 0, {"warning: ", "val.bin has 1 token:"});
}

// As a preparation leaves its folder that is killed between its renames.
TEST_F(PrepareTest, AHalfReplacedFolderIsRefused) {
  const std::string text = folder_.write("text.txt", "some text of some words").string();
  expect_ended(prepare({text, "--tokenizer", "char"}), 0, {});
  write_file(out_ / "meta.json", incomplete_bins_json()).value_or_throw();
  expect_failure(open_bins(out_.string(), "gpt2"), Code::kDataLoss,
                 {"cut off", out_.string(), "prepare the data again"});
  expect_ended(prepare({text, "--tokenizer", "char"}), 0, {});
  EXPECT_TRUE(open_bins(out_.string(), "gpt2").ok());
  EXPECT_EQ(made(), kBins);
  expect_failure(open_bins((folder_ / "shakespeare_char").string(), "gpt2"), Code::kNotFound,
                 {"espalier prepare shakespeare-char --out "});
}

// Weights have a folder of their own, where `--hf NAME` looks.
TEST_F(PrepareTest, WeightsGoToTheirFolder) {
  Server server("");
  const fs::path before = fs::current_path();
  fs::current_path(folder_ / "");
  const Ended ended = run({"prepare", "weights", "gpt2", "--url", server.url("")});
  fs::current_path(before);
  expect_ended(ended, 1, {"data/weights/gpt2/config.json"});
  EXPECT_TRUE(fs::is_directory(folder_ / "data/weights/gpt2"));
}

TEST_F(PrepareTest, BadInputIsRefusedAndLeavesNothing) {
  const auto refused = [&](std::vector<std::string> arguments, int status,
                           const std::vector<std::string>& parts) {
    expect_ended(prepare(std::move(arguments)), status, parts);
    EXPECT_EQ(made(), Names{});
  };
  const std::string text = folder_.write("text.txt", "some text").string();
  refused({"novels"}, 1, {"'novels' is neither a data set", "shakespeare-char"});
  refused({"shakespeare-char", "--tokenizer", "gpt2"}, 2, {"by characters", "--tokenizer gpt2"});
  expect_ended(run({"prepare", text}), 2, {"needs --out DIR"});
  refused({text, "shakespeare"}, 2, {"'shakespeare' is prepared for itself"});
  refused({text, "--tokenizer", "gpt3"}, 1, {"gpt3"});
  refused({text, "--val-fraction", "2"}, 2, {"--val-fraction"});
  refused({text, "--sha256", std::string(64, 'a')}, 1, {"SHA-256", "text.txt"});
  const std::string latin = folder_.write("latin.txt", "caf\xe9").string();
  refused({latin, "--tokenizer", "char"}, 2, {"latin.txt", "byte 3"});
  const std::string lines = folder_.write("a.jsonl", "{\"text\": \"a\"}\n{\"body\": 1}\n").string();
  refused({lines, "--tokenizer", "char"}, 2, {"a.jsonl", "line 2", "\"text\""});
  const std::string other = folder_.write("b.jsonl", "{\"meta\": 1, \"body\": \"b\"}\n").string();
  refused({other, "--tokenizer", "char"}, 2, {"it has \"body\", \"meta\""});
  const std::string torn = folder_.write("c.jsonl", "{\"text\": oops}\n").string();
  refused({torn, "--tokenizer", "char"}, 2, {"c.jsonl", "line 1: not JSON at column 10;"});
  const std::string gz = folder_.write("a.gz", packed("gzip", "text").substr(0, 15)).string();
  refused({gz, "--tokenizer", "char"}, 1, {"a.gz", "cut short"});
  refused({(folder_ / "none.txt").string()}, 1, {"none.txt"});
}

TEST_F(PrepareTest, ASignalLeavesNothingAndWhatWasKilledIsCleared) {
  std::string text;
  for (int i = 0; i < 8000000; ++i) text += " word" + std::to_string(i % 9973);
  const std::string file = folder_.write("long.txt", text).string();
  std::string().swap(text);
  const std::vector<std::string> arguments = {"prepare", file,    "--tokenizer",
                                              "gpt2",    "--out", out_.string()};
  if (!load_tokenizer("gpt2")) GTEST_SKIP() << "no ranks of gpt2";
  for (const int signal : {SIGINT, SIGTERM}) {
    Child child(arguments, folder_ / "child");
    ASSERT_TRUE(child.wait_until([&] { return made().size() == 2; })) << "it ended too early";
    child.send(signal);
    expect_ended(child.wait(), 1, {"stopped by a signal"});
    EXPECT_EQ(made(), Names{});
  }
  {
    Child child(arguments, folder_ / "child");
    ASSERT_TRUE(child.wait_until([&] { return made().size() == 2; }));
    child.send(SIGKILL);
    child.wait();
    EXPECT_EQ(made().size(), 2U);
  }
  const std::string small = folder_.write("small.txt", "a small text").string();
  expect_ended(prepare({small, "--tokenizer", "char"}), 0, {"10 tokens"});
  EXPECT_EQ(made(), kBins);
}

}  // namespace
}  // namespace espalier::test
