#include "espalier/data/token_file.h"

#include <gtest/gtest.h>

#include <chrono>
#include <numeric>

#include "data_testing.h"
#include "espalier/base/sha256.h"

namespace espalier {
namespace {

namespace fs = std::filesystem;
using Ids = std::vector<int32_t>;

Ids all_ids(const TokenFile& file) {
  Ids ids(static_cast<size_t>(file.size()));
  file.copy(0, ids);
  return ids;
}

TokenFile build(const TemporaryFolder& folder, std::string_view text, const Tokenizer& tokenizer,
                const TokenizeOptions& options = {}) {
  const auto source = SourceText::open(folder.write("text.txt", text)).value_or_throw();
  return open_or_build(source, tokenizer, options, folder / "cache").value_or_throw();
}

TEST(Sha256, MatchesThePublishedVector) {
  EXPECT_EQ(sha256_hex(std::string_view("abc")),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(TokenFile, KeepsStoriesWithTheirEnds) {
  const TemporaryFolder folder;
  const TokenFile file = build(folder, "ab\n<|endoftext|>\nc\n<|endoftext|>\n", ByteTokenizer());
  ASSERT_EQ(file.info().story_count, 2);
  EXPECT_EQ(all_ids(file), (Ids{'a', 'b', 256, 'c', 256}));
  EXPECT_EQ(file.story_begin(1), 3);
  EXPECT_EQ(file.story_begin(2), 5);
  EXPECT_EQ(file.info().token_bytes, 2);
  EXPECT_EQ(file.info().max_id, 256);
  EXPECT_EQ(file.info().tokenizer, "bytes");
}

TEST(TokenFile, KeepsWhiteSpaceWhereAsked) {
  const TemporaryFolder folder;
  const TokenFile file =
      build(folder, "a\n<|endoftext|>\nb\n<|endoftext|>\n", ByteTokenizer(), {.trim = false});
  EXPECT_EQ(all_ids(file), (Ids{'a', '\n', 256, '\n', 'b', '\n', 256}));
}

TEST(TokenFile, KeepsOtherTextAsOneRun) {
  const TemporaryFolder folder;
  const TokenFile file = build(folder, " ab\nc\n", ByteTokenizer());
  EXPECT_FALSE(file.has_stories());
  EXPECT_EQ(all_ids(file), (Ids{' ', 'a', 'b', '\n', 'c', '\n'}));
}

TEST(TokenFile, UsesFourBytesForLargeVocabularies) {
  const TemporaryFolder folder;
  const TokenFile file = build(folder, "ab<|endoftext|>c", ByteTokenizer(100000));
  EXPECT_EQ(file.info().token_bytes, 4);
  EXPECT_EQ(all_ids(file), (Ids{100097, 100098, 100256, 100099, 100256}));
  EXPECT_EQ(file.story_begin(2), 5);
}

TEST(TokenFile, ManyBlocksKeepTheOrder) {
  const TemporaryFolder folder;
  std::string text;
  Ids expected;
  for (int i = 0; text.size() < (size_t{9} << 20); ++i) {
    const std::string story(1000, static_cast<char>('a' + i % 26));
    text += story + "<|endoftext|>";
    expected.insert(expected.end(), story.begin(), story.end());
    expected.push_back(256);
  }
  uint64_t last = 0;
  TokenizeOptions options;
  options.threads = 2;
  options.progress = [&](uint64_t done, uint64_t all) {
    EXPECT_LE(last, done);
    EXPECT_EQ(all, text.size());
    last = done;
  };
  const TokenFile file = build(folder, text, ByteTokenizer(), options);
  EXPECT_TRUE(all_ids(file) == expected);
  EXPECT_EQ(last, text.size());
}

TEST(TokenFile, IsBuiltOnceAndAgainWhenTheTextChanges) {
  const TemporaryFolder folder;
  const ByteTokenizer tokenizer;
  const TokenFile first = build(folder, "first text", tokenizer);
  const auto written = fs::last_write_time(first.path());
  const auto later = fs::last_write_time(folder / "text.txt") + std::chrono::hours(1);

  // The same content under a new time is recognized by its hash.
  fs::last_write_time(folder / "text.txt", later);
  auto source = SourceText::open(folder / "text.txt").value_or_throw();
  const auto again = open_or_build(source, tokenizer, {}, folder / "cache").value_or_throw();
  EXPECT_EQ(again.path(), first.path());
  EXPECT_EQ(fs::last_write_time(again.path()), written);

  // Other content of the same size is not.
  folder.write("text.txt", "other text");
  fs::last_write_time(folder / "text.txt", later + std::chrono::hours(1));
  source = SourceText::open(folder / "text.txt").value_or_throw();
  const auto other = open_or_build(source, tokenizer, {}, folder / "cache").value_or_throw();
  EXPECT_EQ(all_ids(other)[0], 'o');
  EXPECT_EQ(all_ids(first)[0], 'f');  // the old map stays as it was
}

TEST(TokenFile, AnotherTokenizerOfTheSameNameIsAnotherFile) {
  const TemporaryFolder folder;
  const TokenFile plain = build(folder, "text", ByteTokenizer());
  const TokenFile shifted = build(folder, "text", ByteTokenizer(1));
  EXPECT_EQ(all_ids(plain)[0], 't');
  EXPECT_EQ(all_ids(shifted)[0], 't' + 1);
}

TEST(TokenFile, IsFoundBesideItsText) {
  const TemporaryFolder folder;
  const auto source = SourceText::open(folder.write("text.txt", "some text")).value_or_throw();
  const auto beside = open_or_build(source, ByteTokenizer(), {}, folder.path()).value_or_throw();
  const auto found = open_or_build(source, ByteTokenizer(), {}, folder / "cache").value_or_throw();
  EXPECT_EQ(found.path(), beside.path());
  EXPECT_FALSE(fs::exists(folder / "cache"));
}

TEST(TokenFile, EmbeddedTextIsKeptByItsContent) {
  const TemporaryFolder folder;
  const ByteTokenizer tokenizer;
  const auto build_text = [&](std::string text) {
    return open_or_build(SourceText::embedded("mine", std::move(text)), tokenizer, {},
                         folder.path())
        .value_or_throw();
  };
  EXPECT_EQ(all_ids(build_text("ab")), (Ids{'a', 'b'}));
  EXPECT_EQ(all_ids(build_text("cd")), (Ids{'c', 'd'}));
}

// A token file cut or changed at any place is detected, and made again.
TEST(TokenFile, DamageIsFoundAndRepaired) {
  const TemporaryFolder folder;
  const ByteTokenizer tokenizer;
  const TokenFile good = build(folder, "ab<|endoftext|>cd<|endoftext|>", tokenizer);
  const fs::path path = good.path();
  const std::string bytes = read_file(path).value_or_throw();
  const auto source = SourceText::open(folder / "text.txt").value_or_throw();
  for (const size_t at : {size_t{9}, size_t{20}, size_t{60}, size_t{4096}, bytes.size() - 1}) {
    std::string altered = bytes;
    altered[at] = static_cast<char>(altered[at] ^ 1);
    folder.write("altered.tokens", altered);
    expect_failure(TokenFile::open(folder / "altered.tokens"), Code::kDataLoss,
                   {"altered.tokens", "altered"});
  }
  for (const size_t size : {size_t{8}, size_t{100}, size_t{4095}, size_t{4100}, bytes.size() - 1}) {
    folder.write("short.tokens", bytes.substr(0, size));
    expect_failure(TokenFile::open(folder / "short.tokens"), Code::kDataLoss,
                   {"short.tokens", "truncated"});
  }
  folder.write("other.tokens", "something else");
  expect_failure(TokenFile::open(folder / "other.tokens"), Code::kInvalidArgument,
                 {"not a token file"});

  write_file(path, bytes.substr(0, bytes.size() - 8)).value_or_throw();
  const auto repaired = open_or_build(source, tokenizer, {}, folder / "cache").value_or_throw();
  EXPECT_EQ(all_ids(repaired), all_ids(good));
}

TEST(TokenFile, RefusesBadTexts) {
  const TemporaryFolder folder;
  expect_failure(SourceText::open(folder / "none.txt"), Code::kNotFound, {"none.txt"});
  expect_failure(SourceText::open(folder.write("empty.txt", "")), Code::kInvalidArgument,
                 {"empty.txt", "is empty"});
  const auto tokens_of = [&](std::string_view name, std::string_view text) {
    const auto source = SourceText::open(folder.write(name, text)).value_or_throw();
    return open_or_build(source, ByteTokenizer(), {}, folder / "cache");
  };
  expect_failure(tokens_of("blank.txt", " \n<|endoftext|>\n \n"), Code::kInvalidArgument,
                 {"blank.txt", "nothing to train on"});
  expect_failure(tokens_of("latin.txt", "ab\ncaf\xe9 au\n"), Code::kInvalidArgument,
                 {"latin.txt", "not valid UTF-8", "byte 6", "line 2", "e9"});
  expect_failure(tokens_of("cut.txt", "abc\xe2\x82"), Code::kInvalidArgument,
                 {"cut.txt", "byte 3", "line 1", "cut short"});
}

TEST(TokenFile, ChecksUtf8AsTheStandardDefinesIt) {
  for (const char* good : {"a", "\xc2\x80", "\xe0\xa0\x80", "\xed\x9f\xbf", "\xf4\x8f\xbf\xbf"}) {
    EXPECT_EQ(first_invalid_utf8(good), std::nullopt) << good;
  }
  for (const char* bad : {"a\x80", "a\xc0\xaf", "a\xe0\x9f\xbf", "a\xed\xa0\x80",
                          "a\xf4\x90\x80\x80", "a\xf5\x80\x80\x80", "a\xe2\x82"}) {
    EXPECT_EQ(first_invalid_utf8(bad), 1U) << bad;
  }
}

TEST(TokenFile, NamesAnIdOutsideTheModelsVocabulary) {
  const TemporaryFolder folder;
  const TokenFile file = build(folder, "ab<|endoftext|>c<|endoftext|>", ByteTokenizer());
  EXPECT_TRUE(file.check_vocab(257).ok());
  expect_failure(file.check_vocab(256), Code::kInvalidArgument,
                 {"id 256", "token 2", "story 0", "vocabulary of 256", "has 257 ids"});
}

// Gives ids beyond its own vocabulary, as a damaged rank file would.
class WrongTokenizer : public ByteTokenizer {
 public:
  int32_t vocab_size() const override { return 100; }
  std::optional<int32_t> end_of_text() const override { return std::nullopt; }
};

TEST(TokenFile, RefusesIdsOutsideTheTokenizersVocabulary) {
  const TemporaryFolder folder;
  const auto source = SourceText::open(folder.write("text.txt", "ABz")).value_or_throw();
  expect_failure(open_or_build(source, WrongTokenizer(), {}, folder / "cache"),
                 Code::kInvalidArgument, {"id 122", "token 2", "vocabulary of 100"});
  EXPECT_TRUE(fs::is_empty(folder / "cache"));
}

// Throws as tokenizers do on what they cannot encode.
class ThrowingTokenizer : public ByteTokenizer {
 public:
  std::vector<int32_t> encode(std::string_view text, bool) const override {
    if (text.find('x') != std::string_view::npos) throw Error("no such character: x");
    return ByteTokenizer::encode(text, false);
  }
};

TEST(TokenFile, ReturnsWhatTheTokenizerThrows) {
  const TemporaryFolder folder;
  const auto source =
      SourceText::open(folder.write("text.txt", "ab<|endoftext|>x")).value_or_throw();
  expect_failure(open_or_build(source, ThrowingTokenizer(), {}, folder / "cache"),
                 Code::kInvalidArgument, {"text.txt", "byte 15", "no such character: x"});
}

}  // namespace
}  // namespace espalier
