// Token bins as they are made: nanoGPT's tokens byte for byte, documents, and nothing left behind.
#include "espalier/data/bins.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "data_archives.h"
#include "data_testing.h"
#include "espalier/base/sha256.h"
#include "espalier/data/bin_writer.h"
#include "espalier/data/prepare_bins.h"
#include "espalier/data/source_text.h"
#include "tests/support/shared.h"

namespace espalier {
namespace {
namespace fs = std::filesystem;

using Ids = std::vector<int32_t>;

template <class T = uint16_t>
Ids ids_of(const fs::path& bin) {
  const std::string bytes = read_file(bin).value_or_throw();
  EXPECT_EQ(bytes.size() % sizeof(T), 0U);
  std::vector<T> ids(bytes.size() / sizeof(T));
  std::memcpy(ids.data(), bytes.data(), bytes.size());
  return {ids.begin(), ids.end()};
}

// The documents of a bin, without their ends.
std::vector<Ids> split_at(const Ids& ids, int32_t end) {
  std::vector<Ids> out;
  Ids document;
  for (const int32_t id : ids) {
    if (id != end) {
      document.push_back(id);
      continue;
    }
    out.push_back(document);
    document.clear();
  }
  EXPECT_TRUE(document.empty()) << "the last document has no end";
  return out;
}

size_t files_in(const fs::path& folder) {
  return fs::exists(folder) ? static_cast<size_t>(std::distance(fs::directory_iterator(folder), {}))
                            : 0;
}

BinOptions with(const std::string& tokenizer) {
  BinOptions options;
  options.tokenizer = tokenizer;
  options.threads = 3;
  return options;
}

class BinsTest : public testing::Test {
 protected:
  Result<BinMeta> prepare(const std::vector<fs::path>& files, const BinOptions& options) {
    return prepare_bins(files, options, out_);
  }
  // A rank file of the 256 bytes alone: ids are bytes, and the end of text is 256.
  std::string byte_ranks() {
    if (!fs::exists(folder_ / "bytes.tiktoken")) {
      constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
      std::string ranks;
      for (int byte = 0; byte < 256; ++byte) {
        ranks += {kDigits[byte >> 2], kDigits[(byte & 3) << 4], '=', '='};
        ranks += " " + std::to_string(byte) + "\n";
      }
      folder_.write("bytes.tiktoken", ranks);
    }
    return (folder_ / "bytes.tiktoken").string();
  }
  TemporaryFolder folder_;
  const fs::path out_ = folder_ / "out";
  const fs::path train_ = out_ / "train.bin", val_ = out_ / "val.bin", meta_ = out_ / "meta.json";
};

Ids bytes_as_ids(std::string_view text) {
  Ids out;
  for (const char c : text) out.push_back(static_cast<unsigned char>(c));
  return out;
}

TEST_F(BinsTest, ShakespeareIsNanoGptsByGpt2) {
  const auto text = shared_file("data/tinyshakespeare.txt");
  if (!text) GTEST_SKIP() << "no ../shared/data/tinyshakespeare.txt";
  const auto gpt2 = load_tokenizer("gpt2");
  if (!gpt2) GTEST_SKIP() << gpt2.failure().message;
  const BinMeta meta = prepare({*text}, with("gpt2")).value_or_throw();
  EXPECT_EQ(meta.train.tokens, 301966);
  EXPECT_EQ(meta.val.tokens, 36059);
  // nanoGPT's script in a few lines: the text is ASCII, so bytes are characters.
  const std::string all = read_file(*text).value_or_throw();
  const auto cut = static_cast<size_t>(static_cast<double>(all.size()) * 0.9);
  EXPECT_EQ(ids_of(train_), (*gpt2)->encode(all.substr(0, cut), false));
  EXPECT_EQ(ids_of(val_), (*gpt2)->encode(all.substr(cut), false));
  EXPECT_EQ(fs::file_size(train_), 2U * 301966);
  EXPECT_EQ(meta.train.sha256, sha256_of_file(train_).value_or_throw());
  EXPECT_EQ(meta.val.sha256, sha256_of_file(val_).value_or_throw());
  EXPECT_EQ(files_in(out_), 3U);
  // The same text packed gives the same.
  const fs::path tar =
      folder_.write("one.tar.xz", packed("xz", tar_of({{"tinyshakespeare.txt", all}})));
  EXPECT_EQ(prepare({tar}, with("gpt2")).value_or_throw().train.sha256, meta.train.sha256);
}

TEST_F(BinsTest, ShakespeareIsNanoGptsByCharacters) {
  const auto text = shared_file("data/tinyshakespeare.txt");
  if (!text) GTEST_SKIP() << "no ../shared/data/tinyshakespeare.txt";
  const BinMeta meta = prepare({*text}, with("char")).value_or_throw();
  EXPECT_EQ(meta.train.tokens, 1003854);
  EXPECT_EQ(meta.val.tokens, 111540);
  EXPECT_EQ(meta.vocab_size, 65);
  const std::string all = read_file(*text).value_or_throw();
  const std::set<char> alphabet(all.begin(), all.end());
  const std::vector<char> characters(alphabet.begin(), alphabet.end());
  const auto json = nlohmann::json::parse(read_file(meta_).value_or_throw());
  ASSERT_EQ(json.at("stoi").size(), 65U);
  for (size_t id = 0; id < characters.size(); ++id) {
    const std::string character(1, characters[id]);
    EXPECT_EQ(json.at("stoi").at(character), id);
    EXPECT_EQ(json.at("itos").at(id), character);
  }
  const Ids train = ids_of(train_), val = ids_of(val_);
  std::string back;
  for (const Ids* ids : {&train, &val}) {
    for (const int32_t id : *ids) back += characters.at(static_cast<size_t>(id));
  }
  EXPECT_EQ(back, all);
}

TEST_F(BinsTest, OneTextIsCutByCharactersNotBytes) {
  // 11 characters: int(11 * 0.9) = 9 of them are trained on.
  const fs::path path = folder_.write("a.txt", "€bcdefghäjk");
  const BinMeta meta = prepare({path}, with("char")).value_or_throw();
  EXPECT_EQ(meta.train.tokens, 9);
  EXPECT_EQ(meta.val.tokens, 2);
  EXPECT_EQ(meta.train.documents, 0);
  EXPECT_EQ(ids_of(train_), (Ids{10, 0, 1, 2, 3, 4, 5, 6, 9}));
  EXPECT_EQ(ids_of(val_), (Ids{7, 8}));
  EXPECT_EQ(meta.max_id, 10);
  // Pieces that fall on both sides of the cut, and no token at the end.
  std::string text;
  for (int i = 0; i < 700000; ++i) text += " " + std::to_string(i);
  const auto cut = static_cast<size_t>(static_cast<double>(text.size()) * 0.9);
  prepare({folder_.write("b.txt", text)}, with(byte_ranks())).value_or_throw();
  EXPECT_EQ(ids_of(train_), bytes_as_ids(text.substr(0, cut)));
  EXPECT_EQ(ids_of(val_), bytes_as_ids(text.substr(cut)));
}

TEST_F(BinsTest, DocumentsAreFollowedByTheEndOfText) {
  std::string lines;
  std::vector<Ids> expected;
  for (int i = 0; i < 10000; ++i) {
    const std::string text = "document <|endoftext|> " + std::to_string(i);
    lines += "{\"text\": \"" + text + "\"}\n";
    expected.push_back(bytes_as_ids(text));
  }
  const BinMeta meta =
      prepare({folder_.write("a.jsonl.gz", packed("gzip", lines))}, with(byte_ranks()))
          .value_or_throw();
  EXPECT_EQ(meta.end_of_text, 256);
  // One of each 2000 documents that follow each other is held out; the rest keep their order.
  EXPECT_EQ(meta.train.documents, 9995);
  EXPECT_EQ(meta.val.documents, 5);
  const auto train = split_at(ids_of(train_), 256), val = split_at(ids_of(val_), 256);
  ASSERT_EQ(train.size(), 9995U);
  ASSERT_EQ(val.size(), 5U);
  size_t t = 0, v = 0;
  for (const Ids& document : expected) {
    if (v < val.size() && val[v] == document) {
      EXPECT_EQ((t + v) / 2000, v);
      ++v;
    } else {
      ASSERT_EQ(train[t], document) << t;
      ++t;
    }
  }
  // The same for any number of threads, and another draw for another seed.
  BinOptions again = with(byte_ranks());
  again.threads = 1;
  EXPECT_EQ(prepare({folder_ / "a.jsonl.gz"}, again).value_or_throw().train.sha256,
            meta.train.sha256);
  again.seed = 1;
  EXPECT_NE(prepare({folder_ / "a.jsonl.gz"}, again).value_or_throw().val.sha256, meta.val.sha256);
}

TEST_F(BinsTest, OfTwoDocumentsOneIsHeldOut) {
  const fs::path a = folder_.write("a.txt", "first"), b = folder_.write("b.txt", "second one");
  std::set<int64_t> held;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    BinOptions options = with(byte_ranks());
    options.seed = seed;
    const BinMeta meta = prepare({a, b}, options).value_or_throw();
    EXPECT_EQ(meta.train.documents, 1);
    EXPECT_EQ(meta.val.documents, 1);
    EXPECT_EQ(meta.train.tokens + meta.val.tokens, 17);
    EXPECT_EQ(meta.train.sha256, sha256_of_file(train_).value_or_throw());
    held.insert(meta.val.tokens);
  }
  EXPECT_EQ(held, (std::set<int64_t>{6, 11}));
  BinOptions none = with(byte_ranks());
  none.val_fraction = 0;
  EXPECT_EQ(prepare({a, b}, none).value_or_throw().val.tokens, 0);
  EXPECT_EQ(ids_of(train_).size(), 17U);
  none.val_fraction = 1.5;
  expect_failure(prepare({a, b}, none), Code::kInvalidArgument, {"--val-fraction", "1.5"});
  // A single document that is marked as one is no text to be cut.
  const fs::path c = folder_.write("c.txt", "alone<|endoftext|>");
  const BinMeta alone = prepare({c}, with(byte_ranks())).value_or_throw();
  EXPECT_EQ(alone.train.documents, 1);
  EXPECT_EQ(alone.val.tokens, 0);
}

TEST_F(BinsTest, AFractionIsDrawnEvenly) {
  for (const double fraction : {0.0005, 0.01, 0.3, 0.5, 0.9, 1.0}) {
    const ValDraw draw(fraction, 7);
    int64_t held = 0;
    for (uint64_t i = 0; i < 100000; ++i) held += draw(i) == Split::kVal;
    EXPECT_NEAR(static_cast<double>(held), fraction * 100000, 1) << fraction;
  }
  // Every place of a group is drawn.
  std::set<uint64_t> places;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    for (uint64_t i = 0; i < 10; ++i) {
      if (ValDraw(0.1, seed)(i) == Split::kVal) places.insert(i);
    }
  }
  EXPECT_EQ(places.size(), 10U);
}

TEST_F(BinsTest, StoriesGiveTheSameBinsFromTheirTokenFile) {
  std::string text;
  for (int i = 0; i < 5000; ++i) text += "Story " + std::to_string(i) + ".\n<|endoftext|>\n";
  const fs::path path = folder_.write("stories.txt", text);
  const BinMeta direct = prepare({path}, with(byte_ranks())).value_or_throw();
  const std::shared_ptr<const Tokenizer> tokenizer = load_tokenizer(byte_ranks()).value_or_throw();
  const TokenFile tokens =
      open_or_build(SourceText::open(path).value_or_throw(), *tokenizer, {}, folder_ / "cache")
          .value_or_throw();
  const BinMeta copied =
      bins_of_stories(tokens, nullptr, tokenizer, with(byte_ranks()), out_).value_or_throw();
  EXPECT_EQ(copied.train.sha256, direct.train.sha256);
  EXPECT_EQ(copied.val.sha256, direct.val.sha256);
  EXPECT_EQ(copied.val.documents, 3);  // 5000 * 0.0005 = 2.5
  const BinMeta pair =
      bins_of_stories(tokens, &tokens, tokenizer, with(byte_ranks()), out_).value_or_throw();
  EXPECT_EQ(pair.train.sha256, pair.val.sha256);
  EXPECT_EQ(pair.train.documents, 5000);
}

TEST_F(BinsTest, LargeVocabulariesTakeFourBytes) {
  const auto llama3 = load_tokenizer("llama3");
  if (!llama3) GTEST_SKIP() << llama3.failure().message;
  const fs::path path =
      folder_.write("a.jsonl", "{\"text\": \"Hello world\"}\n{\"text\": \"x\"}\n");
  BinOptions options = with("llama3");
  options.val_fraction = 0;
  const BinMeta meta = prepare({path}, options).value_or_throw();
  EXPECT_EQ(meta.token_bytes, 4);
  Ids expected = (*llama3)->encode("Hello world", false);
  expected.push_back(128001);
  for (const int32_t id : (*llama3)->encode("x", false)) expected.push_back(id);
  expected.push_back(128001);
  EXPECT_EQ(ids_of<uint32_t>(train_), expected);
}

TEST_F(BinsTest, MetaComesBackAsItWas) {
  const fs::path path = folder_.write("a.txt", "abc \"quoted\" äöü 0123456789");
  const BinMeta made = prepare({path}, with("char")).value_or_throw();
  const BinMeta read = parse_bin_meta(read_file(meta_).value_or_throw(), meta_).value_or_throw();
  EXPECT_EQ(read.tokenizer, "char");
  EXPECT_EQ(read.tokenizer_text, made.tokenizer_text);
  EXPECT_EQ(read.vocab_size, made.vocab_size);
  EXPECT_EQ(read.max_id, made.vocab_size - 1);
  EXPECT_EQ(read.end_of_text, std::nullopt);
  EXPECT_EQ(read.train.sha256, made.train.sha256);
  EXPECT_EQ(read.val.tokens, made.val.tokens);
  EXPECT_EQ(read.sources, std::vector<std::string>{"a.txt"});
}

TEST_F(BinsTest, WhatFailsLeavesNothing) {
  const std::string good = "{\"text\": \"good\"}\n";
  std::string lines;
  for (int i = 0; i < 100000; ++i) lines += good;
  const fs::path bad = folder_.write("bad.jsonl", lines + "{\"text\"");
  expect_failure(prepare({bad}, with(byte_ranks())), Code::kInvalidArgument, {"line 100001"});
  EXPECT_EQ(files_in(out_), 0U);
  expect_failure(prepare({folder_.write("blank.txt", " <|endoftext|> \n")}, with(byte_ranks())),
                 Code::kInvalidArgument, {"nothing to train on"});
  EXPECT_EQ(files_in(out_), 0U);
  const fs::path alphabet =
      folder_.write("alphabet.json", "{\"kind\": \"char\", \"alphabet\": \"abc\"}");
  expect_failure(prepare({folder_.write("x.txt", "abcx")}, with(alphabet.string())),
                 Code::kInvalidArgument, {"x.txt", "character 'x'"});
  EXPECT_EQ(files_in(out_), 0U);
  // What is there stays when a later preparation is stopped.
  const fs::path text = folder_.write("good.jsonl", lines);
  const BinMeta kept = prepare({text}, with(byte_ranks())).value_or_throw();
  BinOptions stopped = with(byte_ranks());
  int asked = 0;
  stopped.stop = [&] { return ++asked > 3; };
  expect_failure(prepare({text}, stopped), Code::kCancelled, {"nothing was written"});
  EXPECT_EQ(files_in(out_), 3U);
  EXPECT_EQ(sha256_of_file(train_).value_or_throw(), kept.train.sha256);
}

TEST_F(BinsTest, ClearsWhatAKilledPreparationLeft) {
  fs::create_directories(out_);
  folder_.write("out/train.bin.Ab12Cd.tmp", "half");
  folder_.write("out/meta.json.Ab12Cd.tmp", "half");
  folder_.write("out/other.bin.Ab12Cd.tmp", "not ours");
  const fs::path text = folder_.write("a.txt", "some text");
  {
    const auto tokenizer = load_tokenizer(byte_ranks()).value_or_throw();
    const BinWriter other = BinWriter::create(out_, tokenizer, {}).value_or_throw();
    expect_failure(prepare({text}, with(byte_ranks())), Code::kFailedPrecondition,
                   {"another preparation"});
  }
  prepare({text}, with(byte_ranks())).value_or_throw();
  EXPECT_EQ(files_in(out_), 4U);
  EXPECT_TRUE(fs::exists(out_ / "other.bin.Ab12Cd.tmp"));
}

// Largest memory in KiB that a preparation of the file takes, in a process of its own.
long memory_of(const fs::path& file, const std::string& tokenizer, const fs::path& folder) {
  const pid_t child = ::fork();
  if (child == 0) {
    BinOptions options = with(tokenizer);
    options.threads = 2;
    ::_exit(prepare_bins({file}, options, folder).ok() ? 0 : 1);
  }
  int status = 0;
  rusage usage{};
  ::wait4(child, &status, 0, &usage);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  return usage.ru_maxrss;
}

TEST_F(BinsTest, MemoryDoesNotGrowWithTheInput) {
  std::string block;
  for (int i = 0; i < 100000; ++i) block += " word" + std::to_string(i);
  const auto times = [&](int n) {
    std::string text;
    for (int i = 0; i < n; ++i) text += block;
    return text;
  };
  const fs::path small = folder_.write("small.txt", times(10));
  const fs::path large = folder_.write("large.txt", times(100));
  const fs::path compressed = folder_.write("large.zst", packed("zstd", times(100)));
  const std::string tokenizer = byte_ranks();
  const long few = memory_of(small, tokenizer, out_);
  // Nine times the small text is 80 MiB more, and its tokens 160 MiB.
  EXPECT_LT(memory_of(large, tokenizer, out_), few + (24 << 10));
  EXPECT_LT(memory_of(compressed, tokenizer, out_), few + (24 << 10));
  EXPECT_GT(fs::file_size(train_), uint64_t{160} << 20);
}

}  // namespace
}  // namespace espalier
