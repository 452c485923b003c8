// Llama 3 trains the same on every mesh, scanned and unrolled, by rules and by maps of parameters;
// and with rematerialized layers.
#include <gtest/gtest.h>

#include "espalier/base/locate.h"
#include "espalier/train/metrics.h"
#include "espalier/train/trainer.h"
#include "tests/support/program.h"
#include "tests/unit/data_testing.h"

namespace espalier::test {
namespace {
namespace fs = std::filesystem;

using Words = std::vector<std::string>;

constexpr double kTolerance = 1e-4;

// The recipe "llama3-debug" with a smaller model whose 8 heads of keys 8 devices can share.
class LlamaTraining : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::make_unique<TemporaryFolder>();
    ::setenv("ESPALIER_CACHE", (*folder_ / "cache").c_str(), 1);
  }
  static void TearDownTestSuite() { folder_.reset(); }
  void SetUp() override {
    const auto plugin = plugin_path("cpu");
    if (!plugin) GTEST_SKIP() << plugin.failure().message;
  }

  static fs::path recipe(const std::string& name) {
    return fs::path(ESPALIER_SOURCE_DIR) / "recipes" / (name + ".toml");
  }
  static Words small(const Words& more) {
    Words out = {"model.dim=32",
                 "model.n_layers=2",
                 "model.n_heads=16",
                 "model.n_kv_heads=8",
                 "model.head_dim=4",
                 "model.hidden_dim=48",
                 "model.max_seq_len=32",
                 "data.seq_len=32",
                 "data.source=stories",
                 "data.tokenizer=char",
                 "data.stories_count=300",
                 "data.cache_dir=" + (*folder_ / "tokens").string(),
                 "optimizer.learning_rate=1e-2",
                 "train.steps=12",
                 "train.log_every=1",
                 "train.checkpoint_every=0",
                 "sample.every=0",
                 "runtime.peak_flops=1e9",
                 "logging.plot=false",
                 "logging.tensorboard=false"};
    out.insert(out.end(), more.begin(), more.end());
    return out;
  }
  static std::vector<StepMetrics> metrics(const std::string& run, const Words& set = {}) {
    if (!fs::exists(*folder_ / run)) {
      TrainRequest request;
      request.config = load_run_config(recipe("llama3-debug"), small(set)).value_or_throw();
      request.run = *folder_ / run;
      train(request).value_or_throw();
    }
    return read_metrics(*folder_ / run / "metrics.jsonl").value_or_throw();
  }
  static void expect_same(const std::string& run, const Words& set) {
    const auto got = metrics(run, set), want = metrics("one");
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_NEAR(got[i].loss, want[i].loss, kTolerance * want[i].loss)
          << run << ", step " << got[i].step;
    }
  }

  static std::unique_ptr<TemporaryFolder> folder_;
};
std::unique_ptr<TemporaryFolder> LlamaTraining::folder_;

TEST_F(LlamaTraining, Learns) {
  const auto one = metrics("one");
  ASSERT_EQ(one.size(), 12u);
  EXPECT_LT(one.back().loss, one.front().loss - 0.3);
}

TEST_F(LlamaTraining, MeshesGiveTheLossesOfOneDevice) {
  expect_same("fsdp", {"mesh.axes={fsdp=8}"});
  expect_same("both", {"mesh.axes={fsdp=4, tp=2}"});
  expect_same("both_unroll", {"mesh.axes={fsdp=4, tp=2}", "model.layers=unroll"});
  expect_same("tp", {"mesh.axes={tp=8}"});
  expect_same("tp_unroll", {"mesh.axes={tp=8}", "model.layers=unroll"});
}

TEST_F(LlamaTraining, RematerializedLayersGiveTheSameLosses) {
  expect_same("remat", {"train.remat=everything", "mesh.axes={fsdp=8}"});
  expect_same("remat_dots", {"train.remat=dots", "mesh.axes={fsdp=4, tp=2}"});
}

TEST_F(LlamaTraining, SequenceParallelism) {
  expect_same("sequence", {"mesh.axes={fsdp=4, tp=2}", "sharding.rules.stream_seq=\"tp\"",
                           "sharding.rules.batch=\"fsdp\"", "sharding.rules.heads=\"tp\"",
                           "sharding.rules.mlp=\"tp\"", "sharding.rules.vocab=\"tp\"",
                           "sharding.rules.embed=\"fsdp\""});
}

// Context parallelism: the sequence over an axis, by ring attention.
TEST_F(LlamaTraining, ContextParallelism) {
  expect_same("context", {"mesh.axes={fsdp=4, context=2}"});
  expect_same("context_ring", {"mesh.axes={context=8}", "model.attention=ring",
                               "model.layers=unroll", "train.remat=everything"});
}

// The published maps, from their recipes, on the small model.
TEST_F(LlamaTraining, PublishedMaps) {
  for (const char* name : {"llama3-8b-fsdp-tp", "llama3-8b-scan-fsdp"}) {
    const RunConfig map = load_run_config(recipe(name), {}).value_or_throw();
    TrainRequest request;
    request.config = load_run_config(recipe("llama3-debug"), small({})).value_or_throw();
    request.config.mesh = map.mesh;
    request.config.sharding = map.sharding;
    const bool scan = std::string(name).find("scan") != std::string::npos;
    request.config.model =
        load_run_config(recipe("llama3-debug"),
                        small({std::string("model.layers=") + (scan ? "scan" : "unroll")}))
            .value_or_throw()
            .model;
    request.run = *folder_ / name;
    train(request).value_or_throw();
    expect_same(name, {});
  }
}

// Parameters that a map leaves out are named once each, whatever the number of layers.
TEST_F(LlamaTraining, NamesWhatAMapLeavesToTheRules) {
  Words words = {"train", recipe("llama3-debug").string(), "--run", (*folder_ / "left").string()};
  for (const std::string& value : small({"mesh.axes={tp=2}", "model.layers=unroll", "train.steps=6",
                                         R"(sharding.params."*proj.weight"=["tp", ""])"})) {
    words.push_back("--set");
    words.push_back(value);
  }
  Child child(words, *folder_ / "child");
  const Ended ended = child.wait();
  expect_ended(
      ended, 0,
      {"no pattern of [sharding.params] matches model.embed_tokens.weight, "
       "model.layers.*.input_layernorm.weight, "
       "model.layers.*.post_attention_layernorm.weight, model.norm.weight, lm_head.weight"});
}

}  // namespace
}  // namespace espalier::test
