#include "espalier/data/dataset.h"

#include <gtest/gtest.h>

#include <numeric>

#include "data_testing.h"

namespace espalier {
namespace {

using Ids = std::vector<int32_t>;

std::shared_ptr<const Dataset> make_dataset(const TemporaryFolder& folder, std::string_view text,
                                            int64_t seq_len, double fraction = 0) {
  const auto tokenizer = std::make_shared<ByteTokenizer>();
  const auto source = SourceText::open(folder.write("text.txt", text)).value_or_throw();
  return Dataset::create(open_or_build(source, *tokenizer, {}, folder / "cache").value_or_throw(),
                         tokenizer, seq_len, fraction)
      .value_or_throw();
}

struct Row {
  Ids tokens, targets;
  bool operator==(const Row&) const = default;
};

Row row_of(const RowSource& rows, int64_t row) {
  // Filled with rubbish first, as a slot that was used before.
  Row out{Ids(static_cast<size_t>(rows.seq_len()), -1),
          Ids(static_cast<size_t>(rows.seq_len()), -1)};
  rows.fill(row, out.tokens, out.targets).value_or_throw();
  return out;
}

TEST(Dataset, StoriesAreCutAndPaddedAndTargetsShifted) {
  const TemporaryFolder folder;
  const auto data = make_dataset(folder, "ab<|endoftext|>cdefgh<|endoftext|>ijk<|endoftext|>", 4);
  const auto rows = data->train();
  ASSERT_EQ(rows->rows(), 3);
  EXPECT_EQ(row_of(*rows, 0), (Row{{'a', 'b', 256, 0}, {'b', 256, 0, 0}}));
  EXPECT_EQ(row_of(*rows, 1), (Row{{'c', 'd', 'e', 'f'}, {'d', 'e', 'f', 0}}));
  EXPECT_EQ(row_of(*rows, 2), (Row{{'i', 'j', 'k', 256}, {'j', 'k', 256, 0}}));
}

TEST(Dataset, OtherTextIsCutIntoWindows) {
  const TemporaryFolder folder;
  const auto data = make_dataset(folder, "abcdefghij", 4);
  const auto rows = data->train();
  ASSERT_EQ(rows->rows(), 3);
  EXPECT_EQ(row_of(*rows, 0), (Row{{'a', 'b', 'c', 'd'}, {'b', 'c', 'd', 0}}));
  EXPECT_EQ(row_of(*rows, 1), (Row{{'e', 'f', 'g', 'h'}, {'f', 'g', 'h', 0}}));
  EXPECT_EQ(row_of(*rows, 2), (Row{{'i', 'j', 0, 0}, {'j', 0, 0, 0}}));
  EXPECT_EQ(make_dataset(folder, "abcdefgh", 4)->rows(), 2);
  EXPECT_EQ(make_dataset(folder, "ab", 4)->rows(), 1);
}

TEST(Dataset, HoldsTheLastRowsOut) {
  const TemporaryFolder folder;
  std::string text(40, 'a');
  text.back() = 'z';
  const auto data = make_dataset(folder, text, 4, 0.2);
  EXPECT_EQ(data->train()->rows(), 8);
  ASSERT_EQ(data->validation()->rows(), 2);
  EXPECT_EQ(row_of(*data->validation(), 1).tokens.back(), 'z');
  EXPECT_EQ(make_dataset(folder, text, 4, 0)->validation()->rows(), 0);
  EXPECT_EQ(make_dataset(folder, text, 4, 0.01)->validation()->rows(), 1);
  EXPECT_EQ(make_dataset(folder, "abc", 4, 0.5)->train()->rows(), 1);
}

TEST(Dataset, RefusesSettingsOutOfRange) {
  const TemporaryFolder folder;
  const auto tokenizer = std::make_shared<ByteTokenizer>();
  const auto source = SourceText::open(folder.write("text.txt", "text")).value_or_throw();
  const auto tokens = open_or_build(source, *tokenizer, {}, folder.path()).value_or_throw();
  expect_failure(Dataset::create(tokens, tokenizer, 1), Code::kInvalidArgument,
                 {"data.seq_len", "at least 2", "1"});
  expect_failure(Dataset::create(tokens, tokenizer, 4, 1.0), Code::kInvalidArgument,
                 {"data.validation_fraction"});
}

TEST(OpenDataset, MakesStoriesForTheCharacterTokenizer) {
  const TemporaryFolder folder;
  DataConfig config;
  config.tokenizer = "char";
  config.stories_count = 50;
  config.seq_len = 2000;
  config.cache_dir = folder.path().string();
  const auto data = open_dataset(config).value_or_throw();
  EXPECT_EQ(data->train()->rows(), 45);
  const Row row = row_of(*data->train(), 0);
  const std::string text = data->tokenizer()->decode(row.tokens).value_or_throw();
  EXPECT_TRUE(text.starts_with("On")) << text;
}

TEST(OpenDataset, ReadsAFile) {
  const TemporaryFolder folder;
  DataConfig config;
  config.source = "text";
  config.path = folder.write("text.txt", "hello, hello").string();
  config.tokenizer = "char";
  config.seq_len = 4;
  config.validation_fraction = 0;
  config.cache_dir = (folder / "cache").string();
  const auto data = open_dataset(config).value_or_throw();
  EXPECT_EQ(data->rows(), 3);
  EXPECT_EQ(data->tokenizer()->decode(row_of(*data->train(), 1).tokens).value_or_throw(), "o, h");
  expect_failure(data->check_vocab(3), Code::kInvalidArgument, {"vocabulary of 3"});
}

TEST(OpenDataset, SaysWhatIsMissing) {
  DataConfig config;
  config.source = "novels";
  expect_failure(open_dataset(config), Code::kInvalidArgument, {"novels", "stories"});
  config.source = "text";
  expect_failure(open_dataset(config), Code::kInvalidArgument, {"data.path"});
  config.path = "/nonexistent/text.txt";
  expect_failure(open_dataset(config), Code::kNotFound, {"/nonexistent/text.txt"});
  config.source = "tinystories";
  expect_failure(open_dataset(config), Code::kNotFound, {"espalier prepare tinystories"});
  config.source = "stories";
  config.stories_count = 0;
  expect_failure(open_dataset(config), Code::kInvalidArgument, {"data.stories_count"});
}

TEST(OpenDataset, ChecksUtf8BeforeTakingAnAlphabet) {
  const TemporaryFolder folder;
  DataConfig config;
  config.source = "text";
  config.path = folder.write("text.txt", "a\xff").string();
  config.tokenizer = "char";
  expect_failure(open_dataset(config), Code::kInvalidArgument, {"byte 1", "line 1"});
}

TEST(OpenDataset, TokenizesByGpt2) {
  const auto gpt2 = load_tokenizer("gpt2");
  if (!gpt2) GTEST_SKIP() << gpt2.failure().message;
  const TemporaryFolder folder;
  DataConfig config;
  config.source = "text";
  config.path =
      folder.write("text.txt", "Once upon a time\n<|endoftext|>\nHello world\n<|endoftext|>\n")
          .string();
  config.seq_len = 6;
  config.validation_fraction = 0;
  config.cache_dir = (folder / "cache").string();
  const auto data = open_dataset(config).value_or_throw();
  ASSERT_EQ(data->rows(), 2);
  EXPECT_EQ(row_of(*data->train(), 0),
            (Row{{7454, 2402, 257, 640, 50256, 0}, {2402, 257, 640, 50256, 0, 0}}));
  EXPECT_EQ(row_of(*data->train(), 1).tokens, (Ids{15496, 995, 50256, 0, 0, 0}));
  // As the JAX tutorial has it: the line break after a separator begins the next story.
  config.trim = false;
  const auto whole = open_dataset(config).value_or_throw();
  EXPECT_EQ(row_of(*whole->train(), 1).tokens, (Ids{198, 15496, 995, 198, 50256, 0}));
}

}  // namespace
}  // namespace espalier
