// `espalier eval` and text_loss: against the loss of each window computed on its own, for every
// batch size and on a mesh, and what the program says of bad input.
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "espalier/base/locate.h"
#include "espalier/data/bins.h"
#include "espalier/train/config.h"
#include "espalier/train/metrics.h"
#include "espalier/train/model_outputs.h"
#include "espalier/train/pretrained.h"
#include "espalier/train/text_loss.h"
#include "tests/support/hf_folder.h"
#include "tests/support/program.h"
#include "tests/unit/data_testing.h"

namespace espalier::test {
namespace {
namespace fs = std::filesystem;

using Words = std::vector<std::string>;

// 99 characters of one to four bytes: with windows of 16, six whole ones and two tokens more.
std::string text_of_test() {
  std::string out;
  const char* const kCharacters[] = {"a", "b", "\u00e9", "c", "\u4f60", " ", "\U0001f600"};
  for (int i = 0; i < 99; ++i) out += kCharacters[(i * 3 + i * i / 5) % 7];
  return out;
}

// The number behind `what` in the program's output.
double number(const Ended& ended, const std::string& what) {
  const size_t at = ended.out.find("\n" + what + ": ");
  if (at == std::string::npos) {
    ADD_FAILURE() << "no " << what << " in: " << ended.out << ended.err;
    return 0;
  }
  return std::stod(ended.out.substr(at + what.size() + 3));
}

class EvalTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto plugin = plugin_path("cpu");
    if (!plugin) GTEST_SKIP() << plugin.failure().message;
    text_ = text_of_test();
    tokenizer_ = char_tokenizer(text_);
    ASSERT_EQ(tokenizer_->vocab_size(), 7);
    Gpt2Config config;
    config.vocab_size = 9;  // more than the tokenizer has
    config.n_positions = 16;
    config.n_embd = 16;
    config.n_layer = 2;
    config.n_head = 2;
    write_hf_folder(hf(), config, random_weights(config, 11));
    write_file(hf() / "tokenizer.txt", tokenizer_->serialize().value_or_throw()).value_or_throw();
    folder_.write("text.txt", text_);
  }

  fs::path hf() const { return folder_ / "hf"; }
  Ended eval(const Words& more, const std::string& data = "text.txt") {
    Words words = {"eval", "--hf", hf().string(), "--data", (folder_ / data).string()};
    words.insert(words.end(), more.begin(), more.end());
    return program(words);
  }
  Ended program(const Words& words) const {
    const ChildOptions options{.environment = {{"ESPALIER_CACHE", (folder_ / "cache").string()}}};
    Child child(words, folder_ / "child", options);
    return child.wait();
  }

  // The model in this process, on one device.
  struct Here {
    RunConfig config;
    std::unique_ptr<LanguageModel> model;
    std::shared_ptr<Runtime> runtime;
    std::vector<DeviceArray> params;
    std::vector<DeviceArray*> pointers;
    ModelOnMesh on() const { return {*model, rules, DType::kF32}; }
    ShardingRules rules;
  };
  Here here() {
    Here out;
    out.config = load_hf_run_config(hf(), {}).value_or_throw();
    out.model = out.config.make_model(0);
    out.runtime =
        Runtime::create({.program_cache = folder_ / "cache" / "programs"}).value_or_throw();
    out.params = load_pretrained(out.runtime, *out.config.model, out.model->params(), {}, hf())
                     .value_or_throw();
    for (DeviceArray& array : out.params) out.pointers.push_back(&array);
    return out;
  }
  // The sum over windows, from each window's own logits.
  static double direct(Here& with, const std::vector<int32_t>& tokens) {
    double nats = 0;
    const size_t predicted = tokens.size() - 1;
    for (size_t begin = 0; begin < predicted; begin += 16) {
      const size_t length = std::min<size_t>(16, predicted - begin);
      const auto from = tokens.begin() + static_cast<int64_t>(begin);
      const Dims dims = {1, static_cast<int64_t>(length)};
      const auto x = HostArray::from<int32_t>(
          dims, std::vector<int32_t>(from, from + static_cast<int64_t>(length)));
      const ModelOutputs got =
          model_outputs(with.runtime, with.on(), with.pointers, x, x).value_or_throw();
      const auto logits = got.logits.as<float>();
      for (size_t t = 0; t < length; ++t) {
        const auto row = logits.subspan(t * 9, 9);
        double sum = 0;
        for (const float z : row) sum += std::exp(static_cast<double>(z));
        nats += std::log(sum) - row[static_cast<size_t>(tokens[begin + t + 1])];
      }
    }
    return nats;
  }

  TemporaryFolder folder_;
  std::string text_;
  std::shared_ptr<const Tokenizer> tokenizer_;
};

TEST_F(EvalTest, EqualsEachWindowOnItsOwn) {
  const std::vector<int32_t> tokens = tokenizer_->encode(text_);
  ASSERT_EQ(tokens.size(), 99u);
  double nats = 0;
  {
    Here with = here();
    nats = direct(with, tokens);
    EXPECT_GT(nats / 98, 1.0);
    for (const int64_t batch : {1, 3, 7, 50}) {
      const TextLoss got =
          text_loss(with.runtime, with.on(), with.pointers, tokens, 16, batch).value_or_throw();
      EXPECT_EQ(got.tokens, 98);
      EXPECT_NEAR(got.nats, nats, 1e-5 * nats) << batch;
    }
    // Shorter than a window, and just two tokens.
    for (const size_t count : {size_t{2}, size_t{11}}) {
      const std::vector<int32_t> few(tokens.begin(), tokens.begin() + static_cast<int64_t>(count));
      const TextLoss got =
          text_loss(with.runtime, with.on(), with.pointers, few, 16, 4).value_or_throw();
      EXPECT_EQ(got.tokens, static_cast<int64_t>(count) - 1);
      EXPECT_NEAR(got.nats, direct(with, few), 1e-5 * nats);
    }
    expect_failure(text_loss(with.runtime, with.on(), with.pointers, {{3}}, 16, 4),
                   Code::kInvalidArgument, {"at least 2 tokens"});
    expect_failure(text_loss(with.runtime, with.on(), with.pointers, {{3, 4, 9, 1}}, 16, 4),
                   Code::kInvalidArgument, {"token 2", "id 9", "0 to 8"});
  }
  const std::string first = tokenizer_->decode({tokens.data(), 1}).value_or_throw();
  const auto bytes = static_cast<double>(text_.size() - first.size());
  for (const Words& more :
       {Words{}, Words{"--batch-size", "3"}, Words{"--set", "mesh.axes={data=4,tensor=2}"}}) {
    const Ended ended = eval(more);
    expect_ended(ended, 0, {"98 predicted", "windows of 16"});
    EXPECT_NEAR(number(ended, "loss"), nats / 98, 1e-5);
    EXPECT_NEAR(number(ended, "perplexity"), std::exp(nats / 98), 1e-3);
    EXPECT_NEAR(number(ended, "bits per byte"), nats / std::numbers::ln2 / bytes, 1e-5);
  }
}

TEST_F(EvalTest, ReadsPreparedTokens) {
  const std::vector<int32_t> ids = tokenizer_->encode(text_);
  const auto as_bytes = [](std::span<const int32_t> part) {
    std::string out;
    for (const int32_t id : part) out += {static_cast<char>(id), 0};
    return out;
  };
  const std::span<const int32_t> all(ids);
  fs::create_directories(folder_ / "bins");
  folder_.write("bins/train.bin", as_bytes(all.first(30)));
  folder_.write("bins/val.bin", as_bytes(all));
  BinMeta meta;
  meta.tokenizer = "char";
  meta.tokenizer_text = tokenizer_->serialize().value_or_throw();
  meta.vocab_size = 7;
  meta.max_id = 6;
  meta.train.tokens = 30;
  meta.val.tokens = 99;
  folder_.write("bins/meta.json", to_json(meta, *tokenizer_));
  const Ended text = eval({}), bins = eval({}, "bins");
  expect_ended(bins, 0, {"98 predicted", "split: validation"});
  EXPECT_EQ(text.out.find("split: "), std::string::npos) << text.out;
  EXPECT_EQ(number(bins, "loss"), number(text, "loss"));
  EXPECT_EQ(number(bins, "bits per byte"), number(text, "bits per byte"));

  // Without validation tokens, whether there is an empty file or none, the others are taken.
  folder_.write("bins/val.bin", "");
  meta.val.tokens = 0;
  folder_.write("bins/meta.json", to_json(meta, *tokenizer_));
  const Words training = {"29 predicted", "split: training", "warning: ", "no validation tokens"};
  expect_ended(eval({}, "bins"), 0, training);
  fs::remove(folder_ / "bins" / "val.bin");
  expect_ended(eval({}, "bins"), 0, training);

  const auto other = char_tokenizer("abcdefg");
  meta.tokenizer_text = other->serialize().value_or_throw();
  folder_.write("bins/meta.json", to_json(meta, *other));
  expect_ended(eval({}, "bins"), 2, {"bins", "tokenizer"});
}

// The loss that the trainer logs for the same windows, which are shorter than the model allows.
TEST_F(EvalTest, OfARunEqualsItsValidationLoss) {
  constexpr int kRows = 16, kLength = 8;
  const std::vector<int32_t> ids = tokenizer_->encode(text_);
  std::string bytes;
  for (int i = 0; i <= kRows * kLength; ++i) {
    bytes += {static_cast<char>(ids[static_cast<size_t>(i * 5 % 99)]), 0};
  }
  fs::create_directories(folder_ / "bins");
  folder_.write("bins/train.bin", bytes);
  folder_.write("bins/val.bin", bytes);
  BinMeta meta;
  meta.tokenizer = "char";
  meta.tokenizer_text = tokenizer_->serialize().value_or_throw();
  meta.vocab_size = 7;
  meta.max_id = 6;
  meta.train.tokens = meta.val.tokens = kRows * kLength + 1;
  folder_.write("bins/meta.json", to_json(meta, *tokenizer_));
  folder_.write("recipe.toml",
                "[model]\nname = \"gpt2\"\nn_layer = 1\nn_head = 2\nn_embd = 16\n"
                "n_positions = 32\n[data]\nsource = \"bin\"\npath = \"" +
                    (folder_ / "bins").string() +
                    "\"\nseq_len = 8\nbatch_size = 8\n[train]\nsteps = 5\nlog_every = 5\n"
                    "checkpoint_every = 5\neval_every = 5\neval_batches = 0\n[sample]\n"
                    "every = 0\n[logging]\nplot = false\ntensorboard = false\n");
  const std::string run = (folder_ / "run").string(), data = (folder_ / "bins").string();
  expect_ended(program({"train", (folder_ / "recipe.toml").string(), "--run", run}), 0, {});
  const auto lines = read_metrics(folder_ / "run" / "metrics.jsonl").value_or_throw();
  ASSERT_TRUE(!lines.empty() && lines.back().val_loss);
  const Ended got = program({"eval", "--run", run, "--data", data});
  expect_ended(got, 0, {"128 predicted", "windows of 8"});
  EXPECT_NEAR(number(got, "loss"), *lines.back().val_loss, 1e-6 * *lines.back().val_loss);

  const Ended longer = program({"eval", "--run", run, "--data", data, "--seq-len", "32"});
  expect_ended(longer, 0, {"128 predicted", "windows of 32"});
  EXPECT_NE(number(longer, "loss"), number(got, "loss"));
  expect_ended(program({"eval", "--run", run, "--data", data, "--seq-len", "33"}), 2,
               {"--seq-len 33", "32 tokens"});
}

// The end-of-text token behind each document is predicted, but is no byte of the text.
TEST_F(EvalTest, EndOfTextStandsForNoBytes) {
  const auto gpt2 = load_tokenizer("gpt2");
  if (!gpt2) GTEST_SKIP() << gpt2.failure().message;
  Gpt2Config config;
  config.vocab_size = 50257;
  config.n_positions = 16;
  config.n_embd = 8;
  config.n_layer = 1;
  config.n_head = 2;
  fs::remove_all(hf());
  write_hf_folder(hf(), config, random_weights(config, 5));
  folder_.write("a.txt", "one two<|endoftext|>three four<|endoftext|>");
  // one, two, end, three, four, end; all but the first: " two" + "three four".
  const Words parts = {"5 predicted", "14 bytes (end-of-text tokens stand for none)"};
  const Ended text = eval({}, "a.txt");
  expect_ended(text, 0, parts);
  expect_ended(program({"prepare", (folder_ / "a.txt").string(), "--val-fraction", "0", "--out",
                        (folder_ / "bins").string()}),
               0, {});
  const Ended bins = eval({}, "bins");
  expect_ended(bins, 0, parts);
  EXPECT_NEAR(number(bins, "bits per byte"), number(bins, "loss") * 5 / std::numbers::ln2 / 14,
              1e-6);
  EXPECT_EQ(number(bins, "bits per byte"), number(text, "bits per byte"));
}

TEST_F(EvalTest, NamesBadInput) {
  expect_ended(eval({}, "none.txt"), 1, {"none.txt"});
  folder_.write("one.txt", "a");
  expect_ended(eval({}, "one.txt"), 2, {"one.txt", "at least 2 tokens"});
  folder_.write("other.txt", "abcx");
  expect_ended(eval({}, "other.txt"), 2, {"other.txt", "'x'", "byte offset 3"});
  expect_ended(eval({"--run", "somewhere"}), 2, {"eval takes one of --run and --hf"});
  expect_ended(eval({"--seq-len", "17"}), 2, {"--seq-len 17", "16 tokens"});
  const Ended none = program({"eval", "--run", (folder_ / "none").string(), "--data", "a.txt"});
  expect_ended(none, 1, {"there is no run in", "none"});
  expect_ended(eval({"--batch-size", "0"}), 2, {"--batch-size"});
  folder_.write("many.txt", char_tokenizer("abcdefghijkl")->serialize().value_or_throw());
  expect_ended(eval({"--tokenizer", (folder_ / "many.txt").string()}), 2,
               {"12 ids", "has 9", "--tokenizer"});
  fs::remove(hf() / "tokenizer.txt");
  expect_ended(eval({}), 2, {"no tokenizer", "9 ids", "--tokenizer"});
}

}  // namespace
}  // namespace espalier::test
