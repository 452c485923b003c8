// Token bins as they are read: windows, shards, bad files, vocabularies, and exact continuation.
#include "espalier/data/windows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <numeric>

#include "data_testing.h"
#include "espalier/data/loader.h"
#include "espalier/data/prepare_bins.h"
#include "tests/support/shared.h"

namespace espalier {
namespace {
namespace fs = std::filesystem;

using Ids = std::vector<int32_t>;

template <class T = uint16_t>
std::string bytes_of(const Ids& ids) {
  const std::vector<T> narrow(ids.begin(), ids.end());
  return {reinterpret_cast<const char*>(narrow.data()), narrow.size() * sizeof(T)};
}

std::string shard_of(int32_t magic, int32_t version, const Ids& ids) {
  std::vector<int32_t> header(256);
  header[0] = magic;
  header[1] = version;
  header[2] = static_cast<int32_t>(ids.size());
  const std::string front(reinterpret_cast<const char*>(header.data()), 1024);
  return front + (magic == 20240520 ? bytes_of(ids) : bytes_of<uint32_t>(ids));
}

Ids count_to(int32_t n, int32_t from = 0) {
  Ids out(static_cast<size_t>(n));
  std::iota(out.begin(), out.end(), from);
  return out;
}

struct Row {
  Ids tokens, targets;
  bool operator==(const Row&) const = default;
};

Row row_of(const RowSource& rows, int64_t row) {
  Row out{Ids(static_cast<size_t>(rows.seq_len()), -1), Ids(static_cast<size_t>(rows.seq_len()))};
  rows.fill(row, out.tokens, out.targets).value_or_throw();
  return out;
}

// The rows that a loader gives, in order.
std::vector<Row> rows_of(Loader& loader, int batches) {
  std::vector<Row> out;
  for (int i = 0; i < batches; ++i) {
    const Batch batch = loader.next().value_or_throw();
    const auto tokens = batch.tokens.as<int32_t>(), targets = batch.targets.as<int32_t>();
    const auto length = static_cast<size_t>(batch.tokens.dims()[1]);
    for (size_t at = 0; at < tokens.size(); at += length) {
      out.push_back({Ids(tokens.begin() + static_cast<ptrdiff_t>(at),
                         tokens.begin() + static_cast<ptrdiff_t>(at + length)),
                     Ids(targets.begin() + static_cast<ptrdiff_t>(at),
                         targets.begin() + static_cast<ptrdiff_t>(at + length))});
    }
  }
  return out;
}

class WindowsTest : public testing::Test {
 protected:
  // A folder of bins without meta.json, for a tokenizer of 257 ids.
  fs::path bins(const Ids& train, const Ids& val) {
    fs::create_directories(folder_ / "bins");
    folder_.write("bins/train.bin", bytes_of(train));
    folder_.write("bins/val.bin", bytes_of(val));
    return folder_ / "bins";
  }
  std::string alphabet() {
    std::string characters;
    for (int c = 0x100; c < 0x100 + 300; ++c) {
      characters += static_cast<char>(0xc0 | c >> 6);
      characters += static_cast<char>(0x80 | (c & 0x3f));
    }
    return folder_
        .write("alphabet.json", "{\"kind\": \"char\", \"alphabet\": \"" + characters + "\"}")
        .string();
  }
  DataConfig config(const fs::path& path, const std::string& sampling = "epoch") {
    DataConfig out;
    out.source = "bin";
    out.path = path.string();
    out.tokenizer = alphabet();  // 300 ids
    out.seq_len = 4;
    out.sampling = sampling;
    return out;
  }
  TemporaryFolder folder_;
};

TEST_F(WindowsTest, ConsecutiveWindowsHaveTheirTrueNextTokens) {
  const auto data = open_dataset(config(bins(count_to(13), count_to(8, 100)))).value_or_throw();
  const auto rows = data->train();
  ASSERT_EQ(rows->rows(), 3);  // the last needs 13 tokens
  EXPECT_EQ(rows->starts(), 0);
  EXPECT_EQ(row_of(*rows, 0), (Row{{0, 1, 2, 3}, {1, 2, 3, 4}}));
  EXPECT_EQ(row_of(*rows, 2), (Row{{8, 9, 10, 11}, {9, 10, 11, 12}}));
  ASSERT_EQ(data->validation()->rows(), 1);  // of 8 tokens, the second lacks its last target
  EXPECT_EQ(row_of(*data->validation(), 0), (Row{{100, 101, 102, 103}, {101, 102, 103, 104}}));
  EXPECT_EQ(data->rows(), 4);
  EXPECT_EQ(data->seq_len(), 4);
}

TEST_F(WindowsTest, AnEpochTakesEveryWindowOnce) {
  const auto data = open_dataset(config(bins(count_to(203), count_to(8)))).value_or_throw();
  const auto loader =
      Loader::start(data->train(), {.batch_size = 10}, {.seed = 3}).value_or_throw();
  ASSERT_EQ(loader->batches_per_epoch(), 5);
  std::vector<Ids> orders;
  for (int epoch = 0; epoch < 2; ++epoch) {
    Ids firsts;
    for (const Row& row : rows_of(*loader, 5)) firsts.push_back(row.tokens[0]);
    orders.push_back(firsts);
    std::sort(firsts.begin(), firsts.end());
    for (int i = 0; i < 50; ++i) EXPECT_EQ(firsts[static_cast<size_t>(i)], 4 * i);
    EXPECT_FALSE(std::is_sorted(orders.back().begin(), orders.back().end()));
  }
  EXPECT_NE(orders[0], orders[1]);
}

TEST_F(WindowsTest, RandomWindowsBeginEverywhereEvenly) {
  const auto data =
      open_dataset(config(bins(count_to(104), count_to(8)), "windows")).value_or_throw();
  const auto rows = data->train();
  EXPECT_EQ(rows->starts(), 100);  // nanoGPT's len(data) - block_size
  EXPECT_EQ(rows->rows(), 25);
  EXPECT_EQ(row_of(*rows, 99), (Row{{99, 100, 101, 102}, {100, 101, 102, 103}}));
  const auto loader = Loader::start(rows, {.batch_size = 50}, {.seed = 1}).value_or_throw();
  std::vector<int> counts(100);
  int repeated = 0, last = -1;
  constexpr int kDraws = 100000;
  for (const Row& row : rows_of(*loader, kDraws / 50)) {
    const int start = row.tokens[0];
    for (int i = 0; i < 4; ++i) {
      EXPECT_EQ(row.tokens[static_cast<size_t>(i)], start + i);
      EXPECT_EQ(row.targets[static_cast<size_t>(i)], start + i + 1);
    }
    ++counts.at(static_cast<size_t>(start));
    repeated += start == last;
    last = start;
  }
  // Chi-square of 99 degrees of freedom: 200 is beyond one in 10^8.
  double chi = 0;
  for (const int count : counts) chi += std::pow(count - kDraws / 100.0, 2) / (kDraws / 100.0);
  EXPECT_LT(chi, 200);
  EXPECT_GT(chi, 40);  // and not in turns
  EXPECT_NEAR(repeated, kDraws / 100, 200);
  // The validation rows are in order even so.
  EXPECT_EQ(data->validation()->starts(), 0);
}

TEST_F(WindowsTest, BothOrdersGoOnExactlyFromAnyState) {
  const fs::path path = bins(count_to(205), count_to(8));
  for (const std::string sampling : {"epoch", "windows"}) {
    SCOPED_TRACE(sampling);
    const auto start = [&](LoaderState state) {
      const auto data = open_dataset(config(path, sampling)).value_or_throw();
      return Loader::start(data->train(), {.batch_size = 8}, state).value_or_throw();
    };
    const auto whole = start({.seed = 5});
    std::vector<LoaderState> states = {{.seed = 5}};
    std::vector<std::vector<Row>> expected;
    for (int i = 0; i < 20; ++i) {
      const Batch batch = whole->next().value_or_throw();
      states.push_back(batch.after);
    }
    const auto again = start({.seed = 5});
    for (int i = 0; i < 20; ++i) expected.push_back(rows_of(*again, 1));
    for (size_t at = 0; at < 20; ++at) {
      EXPECT_EQ(rows_of(*start(states[at]), 1), expected[at]) << at;
    }
    EXPECT_GT(states.back().epoch, 1U);
    EXPECT_NE(rows_of(*start({.seed = 6}), 1), expected[0]);
    EXPECT_NE(expected[0], expected[6]) << "epochs are alike";
  }
}

TEST_F(WindowsTest, AFewRandomWindowsFillALargeBatch) {
  const auto data =
      open_dataset(config(bins(count_to(6), count_to(5)), "windows")).value_or_throw();
  const auto loader = Loader::start(data->train(), {.batch_size = 64}).value_or_throw();
  std::map<int32_t, int> firsts;
  for (const Row& row : rows_of(*loader, 2)) ++firsts[row.tokens[0]];
  EXPECT_EQ(firsts.size(), 2U);
  const auto none = open_dataset(config(bins(count_to(4), {}), "windows")).value_or_throw();
  expect_failure(Loader::start(none->train(), {.batch_size = 1}), Code::kInvalidArgument,
                 {"0 rows", "of 4 tokens"});
}

TEST_F(WindowsTest, ShardsAreOneStreamAndNoWindowCrossesTheirBorders) {
  folder_.write("fineweb_val_000000.bin", shard_of(20240520, 1, count_to(9, 200)));
  folder_.write("fineweb_train_000001.bin", shard_of(20240520, 1, count_to(11)));
  folder_.write("fineweb_train_000002.bin", shard_of(20240520, 1, count_to(4, 50)));
  folder_.write("fineweb_train_000003.bin", shard_of(20240801, 7, count_to(10, 100)));
  const auto data = open_dataset(config(folder_.path())).value_or_throw();
  ASSERT_EQ(data->train()->rows(), 4);  // two, none and two
  EXPECT_EQ(row_of(*data->train(), 1).tokens, (Ids{4, 5, 6, 7}));
  EXPECT_EQ(row_of(*data->train(), 2), (Row{{100, 101, 102, 103}, {101, 102, 103, 104}}));
  ASSERT_EQ(data->validation()->rows(), 2);
  EXPECT_EQ(row_of(*data->validation(), 0).tokens, (Ids{200, 201, 202, 203}));
  const auto random = open_dataset(config(folder_.path(), "windows")).value_or_throw()->train();
  ASSERT_EQ(random->starts(), 7 + 0 + 6);
  for (int64_t i = 0; i < random->starts(); ++i) {
    const Row row = row_of(*random, i);
    EXPECT_EQ(row.tokens[0], i < 7 ? i : 100 + i - 7);
    EXPECT_EQ(row.targets[3], row.tokens[0] + 4);
  }
  // A pattern takes some of them; a single file is a pattern too.
  EXPECT_EQ(open_dataset(config(folder_ / "fineweb_*1.bin")).value_or_throw()->rows(), 2);
  EXPECT_EQ(open_dataset(config(folder_ / "fineweb_train_000003.bin")).value_or_throw()->rows(), 2);
}

TEST_F(WindowsTest, TornFilesAreNamed) {
  const fs::path folder = bins(count_to(13), count_to(8));
  folder_.write("bins/train.bin", bytes_of(count_to(13)) + "x");
  expect_failure(open_dataset(config(folder)), Code::kDataLoss,
                 {"bins/train.bin", "torn end", "27 bytes"});
  folder_.write("s.bin", shard_of(20240520, 1, count_to(11)).substr(0, 1044));
  expect_failure(open_dataset(config(folder_ / "s.bin")), Code::kDataLoss,
                 {"s.bin", "1044 bytes", "promises 1046", "11 tokens"});
  folder_.write("s.bin", shard_of(20240520, 1, count_to(11)) + "xx");
  expect_failure(open_dataset(config(folder_ / "s.bin")), Code::kDataLoss, {"1048 bytes"});
  folder_.write("s.bin", shard_of(20240520, 1, {}).substr(0, 500));
  expect_failure(open_dataset(config(folder_ / "s.bin")), Code::kDataLoss, {"inside its header"});
  folder_.write("s.bin", shard_of(20240520, 2, count_to(11)));
  expect_failure(open_dataset(config(folder_ / "s.bin")), Code::kInvalidArgument, {"version 2"});
  folder_.write("s.bin", bytes_of(count_to(600)));
  expect_failure(open_dataset(config(folder_ / "s.bin")), Code::kInvalidArgument,
                 {"no token shard", "20240520"});
  expect_failure(open_dataset(config(folder_ / "none")), Code::kNotFound,
                 {"none", "espalier prepare"});
  fs::create_directories(folder_ / "empty");
  expect_failure(open_dataset(config(folder_ / "empty")), Code::kNotFound, {"empty"});
  expect_failure(open_dataset(config("")), Code::kInvalidArgument, {"data.path"});
}

TEST_F(WindowsTest, AFolderThatWasPreparedBringsItsTokenizer) {
  const fs::path text = folder_.write("text.txt", "hello, hello, hello, hello, hello!");
  BinOptions options;
  options.tokenizer = "char";
  prepare_bins({text}, options, folder_ / "made").value_or_throw();
  DataConfig c = config(folder_ / "made");
  c.tokenizer = "gpt2";
  const auto data = open_dataset(c).value_or_throw();
  EXPECT_EQ(data->tokenizer()->vocab_size(), 7);
  EXPECT_EQ(data->tokenizer()->decode(row_of(*data->train(), 1).tokens).value_or_throw(), "o, h");
  EXPECT_TRUE(data->check_vocab(7).ok());
  expect_failure(data->check_vocab(6), Code::kInvalidArgument,
                 {"token 4 of", "train.bin", "id 6", "vocabulary of 6"});
  // The sizes that meta.json promises are held to.
  const std::string train = read_file(folder_ / "made/train.bin").value_or_throw();
  folder_.write("made/train.bin", train.substr(0, train.size() - 2));
  expect_failure(open_dataset(c), Code::kDataLoss, {"train.bin", "58 bytes", "promises 60"});
  folder_.write("made/meta.json", "{}");
  expect_failure(open_dataset(c), Code::kDataLoss, {"meta.json", "does not describe"});
  fs::remove(folder_ / "made/meta.json");
  c.tokenizer = "char";
  expect_failure(open_dataset(c), Code::kInvalidArgument, {"no meta.json", "alphabet"});
}

TEST_F(WindowsTest, IdsOutsideTheVocabularyNeverReachTheModel) {
  Ids ids = count_to(50);
  ids[30] = 300;  // the tokenizer has 300 ids
  const auto data = open_dataset(config(bins(ids, count_to(8)))).value_or_throw();
  expect_failure(data->check_vocab(1000), Code::kInvalidArgument,
                 {"token 30 of", "id 300", "data.tokenizer"});
  expect_failure(data->check_vocab(20), Code::kInvalidArgument,
                 {"token 20 of", "vocabulary of 20", "300"});
  EXPECT_TRUE(open_dataset(config(bins(count_to(50), count_to(8))))
                  .value_or_throw()
                  ->check_vocab(300)
                  .ok());
  const auto again = open_dataset(config(bins(ids, count_to(8)))).value_or_throw();
  Ids tokens(4), targets(4);
  EXPECT_TRUE(again->train()->fill(6, tokens, targets).ok());
  expect_failure(again->train()->fill(7, tokens, targets), Code::kInvalidArgument,
                 {"token 30 of", "train.bin", "id 300"});
  // In the last target alone.
  ids[30] = 0;
  ids[32] = 301;
  const auto target = open_dataset(config(bins(ids, count_to(8)))).value_or_throw();
  expect_failure(target->train()->fill(7, tokens, targets), Code::kInvalidArgument,
                 {"token 32 of", "id 301"});
  // An id that fits no int32.
  std::string wide = shard_of(20240801, 7, count_to(10));
  std::memset(wide.data() + 1024 + 3 * 4, 0xff, 4);
  folder_.write("wide.bin", wide);
  const auto huge = open_dataset(config(folder_ / "wide.bin")).value_or_throw();
  expect_failure(huge->check_vocab(300), Code::kInvalidArgument, {"id 4294967295"});
  expect_failure(huge->train()->fill(0, tokens, targets), Code::kInvalidArgument,
                 {"id 4294967295"});
}

TEST_F(WindowsTest, TheIdentityIsTheContents) {
  const auto identity = [&](const Ids& train, const Ids& val) {
    return open_dataset(config(bins(train, val))).value_or_throw()->identity();
  };
  const std::string one = identity(count_to(13), count_to(8));
  EXPECT_EQ(one.size(), 64U);
  EXPECT_EQ(identity(count_to(13), count_to(8)), one);
  EXPECT_NE(identity(count_to(13, 1), count_to(8)), one);
  EXPECT_NE(identity(count_to(14), count_to(8)), one);
  EXPECT_NE(identity(count_to(13), count_to(9)), one);
  EXPECT_NE(identity(count_to(8), count_to(13)), one);
  // Of a large file blocks are taken, the last among them.
  Ids large(9 << 20, 7);
  const std::string before = identity(large, {});
  large.back() = 8;
  EXPECT_NE(identity(large, {}), before);
}

TEST_F(WindowsTest, ATextWithoutStoriesGivesWindowsToo) {
  DataConfig c;
  c.source = "text";
  c.path = folder_.write("text.txt", "abcdefghijklmnopqrst").string();
  c.tokenizer = "char";
  c.seq_len = 4;
  c.sampling = "windows";
  c.validation_fraction = 0.25;
  c.cache_dir = (folder_ / "cache").string();
  const auto data = open_dataset(c).value_or_throw();
  EXPECT_EQ(data->train()->starts(), 15 - 4);
  EXPECT_EQ(row_of(*data->train(), 10), (Row{{10, 11, 12, 13}, {11, 12, 13, 14}}));
  ASSERT_EQ(data->validation()->rows(), 1);
  EXPECT_EQ(row_of(*data->validation(), 0), (Row{{15, 16, 17, 18}, {16, 17, 18, 19}}));
  c.path = folder_.write("stories.txt", "one<|endoftext|>two<|endoftext|>").string();
  expect_failure(open_dataset(c), Code::kInvalidArgument, {"data.sampling", "stories.txt", "bin"});
  c.sampling = "sideways";
  expect_failure(open_dataset(c), Code::kInvalidArgument, {"data.sampling", "sideways"});
}

}  // namespace
}  // namespace espalier
