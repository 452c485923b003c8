#include "espalier/data/loader.h"

#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <thread>

#include "data_testing.h"
#include "espalier/data/permutation.h"

namespace espalier {
namespace {

using Ids = std::vector<int32_t>;

// Row i is i, i, ...; one row can be made to fail.
class CountingRows : public RowSource {
 public:
  explicit CountingRows(int64_t rows, int64_t bad = -1) : rows_(rows), bad_(bad) {}
  int64_t rows() const override { return rows_; }
  int64_t seq_len() const override { return 3; }
  Status fill(int64_t row, std::span<int32_t> tokens, std::span<int32_t> targets) const override {
    if (row == bad_) return Failure{Code::kDataLoss, "row " + std::to_string(row) + " is damaged"};
    if (row == throwing_) throw std::runtime_error("out of luck");
    std::fill(tokens.begin(), tokens.end(), static_cast<int32_t>(row));
    std::fill(targets.begin(), targets.end(), static_cast<int32_t>(row) + 1000);
    ++filled_;
    return {};
  }
  int64_t filled() const { return filled_; }
  void throw_at(int64_t row) { throwing_ = row; }

 private:
  int64_t rows_, bad_, throwing_ = -1;
  mutable std::atomic<int64_t> filled_ = 0;
};

std::unique_ptr<Loader> start(int64_t rows, const LoaderOptions& options, LoaderState state = {}) {
  return Loader::start(std::make_shared<CountingRows>(rows), options, state).value_or_throw();
}

Ids rows_of(const Batch& batch) {
  const auto ids = batch.tokens.as<int32_t>();
  Ids out;
  for (size_t i = 0; i < ids.size(); i += 3) out.push_back(ids[i]);
  return out;
}

TEST(Permutation, VisitsEveryNumberOnce) {
  for (const uint64_t n : {1, 2, 3, 4, 5, 16, 17, 100, 1000, 4096, 4097}) {
    const Permutation order(n, 5, 0);
    std::set<uint64_t> seen;
    for (uint64_t i = 0; i < n; ++i) seen.insert(order(i));
    EXPECT_EQ(seen.size(), n);
    EXPECT_EQ(*seen.rbegin(), n - 1);
  }
}

TEST(Permutation, LooksRandom) {
  // Of 20000 numbers in random order about one stays in its place and half rise.
  constexpr uint64_t kCount = 20000;
  const Permutation order(kCount, 1, 0), later(kCount, 1, 1), other(kCount, 2, 0);
  int fixed = 0, rising = 0, as_later = 0, as_other = 0;
  for (uint64_t i = 0; i + 1 < kCount; ++i) {
    fixed += order(i) == i;
    rising += order(i) < order(i + 1);
    as_later += order(i) == later(i);
    as_other += order(i) == other(i);
  }
  EXPECT_LT(fixed, 8);
  EXPECT_NEAR(rising, 10000, 300);
  EXPECT_LT(as_later, 8);
  EXPECT_LT(as_other, 8);
}

TEST(Loader, InOrderDropsTheLastPartialBatch) {
  const auto loader = start(7, {.batch_size = 3, .shuffle = false});
  EXPECT_EQ(loader->batches_per_epoch(), 2);
  for (int epoch = 0; epoch < 3; ++epoch) {
    EXPECT_EQ(rows_of(loader->next().value_or_throw()), (Ids{0, 1, 2}));
    const Batch batch = loader->next().value_or_throw();
    EXPECT_EQ(rows_of(batch), (Ids{3, 4, 5}));
    EXPECT_EQ(batch.after, (LoaderState{0, static_cast<uint64_t>(epoch) + 1, 0}));
  }
}

TEST(Loader, BatchesHaveTheirShapeTypeAndAlignment) {
  const auto loader = start(8, {.batch_size = 2});
  const Batch batch = loader->next().value_or_throw();
  EXPECT_EQ(batch.tokens.dims(), (Dims{2, 3}));
  EXPECT_EQ(batch.targets.dims(), (Dims{2, 3}));
  EXPECT_EQ(batch.tokens.dtype(), DType::kS32);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(batch.tokens.data()) % 64, 0U);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(batch.targets.data()) % 64, 0U);
  EXPECT_EQ(batch.targets.as<int32_t>()[5], batch.tokens.as<int32_t>()[5] + 1000);
}

TEST(Loader, ShufflesEachEpochAnewAndSeesEveryRow) {
  const auto loader = start(60, {.batch_size = 6}, {.seed = 9});
  std::vector<Ids> epochs;
  for (int epoch = 0; epoch < 2; ++epoch) {
    Ids all;
    for (int i = 0; i < 10; ++i) {
      const Ids rows = rows_of(loader->next().value_or_throw());
      all.insert(all.end(), rows.begin(), rows.end());
    }
    EXPECT_EQ(std::set<int32_t>(all.begin(), all.end()).size(), 60U);
    EXPECT_FALSE(std::is_sorted(all.begin(), all.end()));
    epochs.push_back(all);
  }
  EXPECT_NE(epochs[0], epochs[1]);
}

TEST(Loader, GoesOnExactlyFromAnyState) {
  const LoaderOptions options{.batch_size = 4};
  const auto whole = start(30, options, {.seed = 3});
  std::vector<Ids> expected;
  std::vector<LoaderState> states;
  for (int i = 0; i < 20; ++i) {
    const Batch batch = whole->next().value_or_throw();
    expected.push_back(rows_of(batch));
    states.push_back(batch.after);
  }
  for (size_t at = 0; at < 18; ++at) {
    const auto resumed = start(30, options, states[at]);
    const Batch batch = resumed->next().value_or_throw();
    EXPECT_EQ(rows_of(batch), expected[at + 1]) << "resumed after batch " << at;
    EXPECT_EQ(batch.after, states[at + 1]);
    EXPECT_EQ(rows_of(resumed->next().value_or_throw()), expected[at + 2]);
  }
  EXPECT_NE(rows_of(start(30, options, {.seed = 4})->next().value_or_throw()), expected[0]);
}

TEST(Loader, ASlotIsReusedOnlyWhenItsLeaseIsGone) {
  const auto loader = start(1000, {.batch_size = 1, .shuffle = false, .slots = 2});
  const Batch kept = loader->next().value_or_throw();
  std::set<const std::byte*> slots;
  for (int i = 1; i < 100; ++i) {
    const Batch batch = loader->next().value_or_throw();
    EXPECT_EQ(rows_of(batch), Ids{i});
    EXPECT_NE(batch.tokens.data(), kept.tokens.data());
    slots.insert(batch.tokens.data());
  }
  EXPECT_EQ(rows_of(kept), Ids{0});
  EXPECT_LE(slots.size(), 2U);  // the other slot, and one more where both were out at once
}

TEST(Loader, HoldingEveryBatchGrowsTheRingInsteadOfWaiting) {
  const auto loader = start(100, {.batch_size = 1, .shuffle = false, .slots = 2});
  std::vector<Batch> held;
  for (int i = 0; i < 20; ++i) held.push_back(loader->next().value_or_throw());
  for (int i = 0; i < 20; ++i) EXPECT_EQ(rows_of(held[static_cast<size_t>(i)]), Ids{i});
}

TEST(Loader, FillsAheadButNoFurtherThanItsSlots) {
  const auto rows = std::make_shared<CountingRows>(1000);
  const auto loader = Loader::start(rows, {.batch_size = 2, .slots = 3}).value_or_throw();
  for (int i = 0; i < 2000 && rows->filled() < 6; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(rows->filled(), 6);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(rows->filled(), 6);
}

TEST(Loader, ABatchOutlivesItsLoader) {
  auto loader = start(10, {.batch_size = 2, .shuffle = false});
  const Batch batch = loader->next().value_or_throw();
  loader.reset();
  EXPECT_EQ(rows_of(batch), (Ids{0, 1}));
}

TEST(Loader, FailuresSurfaceAtNextAfterTheGoodBatches) {
  const LoaderOptions options{.batch_size = 2, .shuffle = false};
  const auto loader =
      Loader::start(std::make_shared<CountingRows>(10, 5), options).value_or_throw();
  EXPECT_EQ(rows_of(loader->next().value_or_throw()), (Ids{0, 1}));
  EXPECT_EQ(rows_of(loader->next().value_or_throw()), (Ids{2, 3}));
  expect_failure(loader->next(), Code::kDataLoss, {"row 5 is damaged"});
  expect_failure(loader->next(), Code::kDataLoss, {"row 5 is damaged"});
}

TEST(Loader, ExceptionsInTheThreadSurfaceToo) {
  const auto rows = std::make_shared<CountingRows>(10);
  rows->throw_at(0);
  const auto loader = Loader::start(rows, {.batch_size = 2, .shuffle = false}).value_or_throw();
  expect_failure(loader->next(), Code::kInternal, {"out of luck"});
}

TEST(Loader, TooFewRowsNamesTheBatchThatIsPossible) {
  expect_failure(Loader::start(std::make_shared<CountingRows>(5), {.batch_size = 8}),
                 Code::kInvalidArgument, {"5 rows", "batch of 8", "at most 5"});
  expect_failure(Loader::start(std::make_shared<CountingRows>(0), {.batch_size = 8}),
                 Code::kInvalidArgument, {"0 rows", "validation_fraction"});
  expect_failure(Loader::start(std::make_shared<CountingRows>(5), {.batch_size = 0}),
                 Code::kInvalidArgument, {"data.batch_size", "at least 1"});
}

}  // namespace
}  // namespace espalier
