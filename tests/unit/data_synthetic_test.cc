// Random tokens as a data source: their distribution, that rows stay what they are, and where a
// loader goes on.
#include "espalier/data/synthetic.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "espalier/data/loader.h"
#include "tests/unit/data_testing.h"

namespace espalier {
namespace {

using Row = std::vector<int32_t>;

struct Pair {
  Row tokens, targets;
};
Pair row_of(const RowSource& rows, int64_t row) {
  const auto length = static_cast<size_t>(rows.seq_len());
  Pair out{Row(length), Row(length)};
  rows.fill(row, out.tokens, out.targets).value_or_throw();
  return out;
}

TEST(Synthetic, IdsAreEvenOverTheVocabulary) {
  const int64_t vocab = 7, length = 100;
  const auto rows = synthetic_rows(1000, length, vocab, 3, false);
  std::vector<int> counts(vocab), pairs(vocab * vocab);
  for (int64_t r = 0; r < 1000; ++r) {
    const Pair row = row_of(*rows, r);
    for (size_t t = 0; t < row.tokens.size(); ++t) {
      ASSERT_TRUE(row.tokens[t] >= 0 && row.tokens[t] < vocab);
      ++counts[static_cast<size_t>(row.tokens[t])];
      ++pairs[static_cast<size_t>(row.tokens[t] * vocab + row.targets[t])];
    }
    EXPECT_TRUE(std::equal(row.targets.begin(), row.targets.end() - 1, row.tokens.begin() + 1));
  }
  // Five standard deviations of a binomial count: n = 100000, p = 1/7 and 1/49.
  for (const int count : counts) EXPECT_NEAR(count, 100000 / 7.0, 5 * 111);
  for (const int count : pairs) EXPECT_NEAR(count, 100000 / 49.0, 5 * 45);
}

TEST(Synthetic, RowsDependOnSeedAndPlaceAlone) {
  const auto rows = synthetic_rows(int64_t{1} << 40, 16, 128256, 5, false);
  const Row far = row_of(*rows, (int64_t{1} << 40) - 1).tokens;
  EXPECT_EQ(row_of(*synthetic_rows(int64_t{1} << 40, 16, 128256, 5, false), (int64_t{1} << 40) - 1)
                .tokens,
            far);
  std::set<Row> all = {far};
  for (int64_t r = 0; r < 100; ++r) all.insert(row_of(*rows, r).tokens);
  const auto held_out = synthetic_rows(100, 16, 128256, 5, true);
  const auto other = synthetic_rows(100, 16, 128256, 6, false);
  for (int64_t r = 0; r < 100; ++r) {
    all.insert(row_of(*held_out, r).tokens);
    all.insert(row_of(*other, r).tokens);
  }
  EXPECT_EQ(all.size(), 301U);
}

DataConfig config() {
  DataConfig out;
  out.source = "synthetic";
  out.seq_len = 8;
  out.batch_size = 4;
  out.seed = 9;
  return out;
}

TEST(Synthetic, ALoaderGoesOnWhereItWas) {
  const auto data = open_dataset(config(), 50).value_or_throw();
  const auto loader = Loader::start(data->train(), {.batch_size = 4}, {9, 0, 0}).value_or_throw();
  std::vector<Row> batches;
  LoaderState after;
  for (int i = 0; i < 6; ++i) {
    const Batch batch = loader->next().value_or_throw();
    const auto ids = batch.tokens.as<int32_t>();
    batches.emplace_back(ids.begin(), ids.end());
    if (i == 2) after = batch.after;
  }
  EXPECT_EQ(after, (LoaderState{9, 0, 12}));
  const auto again = Loader::start(data->train(), {.batch_size = 4}, after).value_or_throw();
  for (int i = 3; i < 6; ++i) {
    const Batch batch = again->next().value_or_throw();
    const auto ids = batch.tokens.as<int32_t>();
    EXPECT_EQ(Row(ids.begin(), ids.end()), batches[static_cast<size_t>(i)]);
  }
}

TEST(Synthetic, DatasetNeedsAVocabularyAndNoTokenizer) {
  const auto data = open_dataset(config(), 50).value_or_throw();
  EXPECT_EQ(data->tokenizer()->vocab_size(), 50);
  EXPECT_EQ(data->validation()->rows(), 256);
  EXPECT_TRUE(data->check_vocab(50).ok());
  EXPECT_EQ(data->identity().size(), 64U);
  EXPECT_NE(data->identity(), open_dataset(config(), 51).value_or_throw()->identity());
  expect_failure(open_dataset(config()), Code::kInvalidArgument, {"model.vocab_size"});
  DataConfig windows = config();
  windows.sampling = "windows";
  expect_failure(open_dataset(windows, 50), Code::kInvalidArgument, {"data.sampling"});

  const auto stored = data->tokenizer()->serialize().value_or_throw();
  const auto none = parse_tokenizer(stored).value_or_throw();
  EXPECT_EQ(none->vocab_size(), 50);
  EXPECT_EQ(none->decode(std::vector<int32_t>{3, 49}).value_or_throw(), "3 49");
  EXPECT_THROW(none->encode("text"), Error);
  expect_failure(parse_tokenizer(R"({"kind": "none", "vocab_size": 0})"), Code::kDataLoss,
                 {"\"vocab_size\""});
}

}  // namespace
}  // namespace espalier
