// GPT-2 trains the same on every mesh and with the batch in parts; bfloat16 stays near float32; a
// step that is not finite stops the run or is left out; runs begin from other runs' parameters.
#include <gtest/gtest.h>

#include <cmath>

#include "cli/text_sampler.h"
#include "espalier/checkpoint/store.h"
#include "espalier/train/metrics.h"
#include "espalier/train/run_folder.h"
#include "espalier/train/trainer.h"
#include "tests/support/compare.h"
#include "tests/support/shared.h"
#include "tests/unit/data_testing.h"

namespace espalier::test {
namespace {
namespace fs = std::filesystem;

// Adam at a rate of 1e-3 turns differences of rounding into differences of steps: 1e-4 as
// elsewhere.
constexpr double kTolerance = 1e-4;

class Gpt2TrainingTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::make_unique<TemporaryFolder>();
    ::setenv("ESPALIER_CACHE", (*folder_ / "cache").c_str(), 1);
    std::string text;
    for (int i = 0; i < 400; ++i) {
      text += "the " + std::to_string(i * i % 97) + " foxes jump over " + std::to_string(i % 13) +
              " dogs\n";
    }
    folder_->write("text.txt", text);
    folder_->write("recipe.toml", R"([model]
name = "gpt2"
n_layer = 2
n_head = 4
n_embd = 32
n_positions = 16
bias = false
[data]
source = "text"
path = ")" + (*folder_ / "text.txt").string() +
                                      R"("
tokenizer = "char"
seq_len = 16
batch_size = 8
cache_dir = ")" + (*folder_ / "tokens").string() +
                                      R"("
[optimizer]
learning_rate = 1e-2
beta2 = 0.99
weight_decay = 0.1
clip_norm = 1.0
schedule = "cosine"
warmup_steps = 3
decay_steps = 20
[train]
steps = 20
log_every = 1
checkpoint_every = 10
eval_every = 10
eval_batches = 0
[sample]
prompt = "the "
every = 0
[runtime]
peak_flops = 1e9
[logging]
plot = false
tensorboard = false
)");
  }
  static void TearDownTestSuite() { folder_.reset(); }

  static RunConfig config(const std::vector<std::string>& set) {
    return load_run_config(*folder_ / "recipe.toml", set).value_or_throw();
  }
  static Result<TrainSummary> train_in(const std::string& run, const std::vector<std::string>& set,
                                       bool resume = false) {
    TrainRequest request;
    request.config = config(set);
    request.run = *folder_ / run;
    request.resume = resume;
    request.make_sampler = make_training_sampler;
    return train(request);
  }
  static std::vector<StepMetrics> metrics(const std::string& run,
                                          const std::vector<std::string>& set = {}) {
    if (!fs::exists(*folder_ / run)) train_in(run, set).value_or_throw();
    return read_metrics(*folder_ / run / "metrics.jsonl").value_or_throw();
  }
  static void expect_same(const std::vector<StepMetrics>& got, const std::vector<StepMetrics>& want,
                          double tolerance) {
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_NEAR(got[i].loss, want[i].loss, tolerance * want[i].loss) << "step " << got[i].step;
    }
  }

  static std::unique_ptr<TemporaryFolder> folder_;
};
std::unique_ptr<TemporaryFolder> Gpt2TrainingTest::folder_;

TEST_F(Gpt2TrainingTest, LearnsAndLogsWhatItUses) {
  const auto one = metrics("one");
  ASSERT_EQ(one.size(), 20u);
  EXPECT_LT(one.back().loss, one.front().loss - 1);
  EXPECT_NEAR(one.front().loss, std::log(30.0),
              0.3);  // about 30 characters, equally likely at first
  for (const StepMetrics& m : one) {
    ASSERT_TRUE(m.mfu && m.memory_bytes);
    EXPECT_GT(*m.mfu, 0);
    EXPECT_GT(*m.memory_bytes, 1e6);
  }
  EXPECT_EQ(one.back().seconds_left, 0);
  EXPECT_TRUE(one.back().val_loss);
}

TEST_F(Gpt2TrainingTest, MeshesGiveTheLossesOfOneDevice) {
  const auto one = metrics("one");
  expect_same(metrics("data_tensor", {"mesh.axes={data=4, tensor=2}"}), one, kTolerance);
  expect_same(metrics("fsdp", {"mesh.axes={fsdp=8}"}), one, kTolerance);
  expect_same(metrics("fsdp_tp", {"mesh.axes={fsdp=2, tp=4}", "model.layers=unroll"}), one,
              kTolerance);
  expect_same(metrics("flash", {"model.attention=flash", "mesh.axes={fsdp=4, tp=2}"}), one,
              kTolerance);
}

TEST_F(Gpt2TrainingTest, MuonOnMeshes) {
  const std::vector<std::string> muon = {"optimizer.name=muon", "optimizer.learning_rate=0.02",
                                         "optimizer.adam_learning_rate=0.01"};
  const auto one = metrics("muon", muon);
  EXPECT_LT(one.back().loss, one.front().loss - 1);
  auto on_mesh = muon;
  on_mesh.push_back("mesh.axes={fsdp=4, tensor=2}");
  expect_same(metrics("muon_mesh", on_mesh), one, kTolerance);
}

// The same rows in one batch of 8 or in four of 2 give the same gradient, so the same losses.
TEST_F(Gpt2TrainingTest, AccumulationEqualsTheLargeBatch) {
  const auto parts = metrics("parts", {"data.batch_size=2", "train.accumulate=4"});
  const auto one = metrics("one");
  EXPECT_NEAR(parts[0].grad_norm, one[0].grad_norm, 1e-5 * one[0].grad_norm);
  expect_same(parts, one, 1e-5);
}

TEST_F(Gpt2TrainingTest, Bfloat16StaysNearFloat32) {
  const auto one = metrics("one");
  const auto half = metrics("bf16", {"train.dtype=bfloat16"});
  EXPECT_NE(half[5].loss, one[5].loss);  // it does compute in another type
  expect_same(half, one, 0.03);
}

TEST_F(Gpt2TrainingTest, RotaryPositionsAndDropoutTrain) {
  const auto rope = metrics("rope", {"model.positions=rope", "model.dropout=0.1"});
  EXPECT_LT(rope.back().loss, rope.front().loss - 0.5);
}

// Targets that are ignored leave the loss of the others.
TEST_F(Gpt2TrainingTest, ZLossAndIgnoredTargets) {
  const auto one = metrics("one");
  const auto z = metrics("z", {"train.z_loss=0.01"});
  EXPECT_GT(z[0].loss, one[0].loss + 0.05);  // 0.01 log(30)^2 = 0.116
  EXPECT_LT(z[0].loss, one[0].loss + 0.25);
  EXPECT_NEAR(*z[9].val_loss, *one[9].val_loss, 0.2);              // evaluation leaves z_loss out
  const auto ignored = metrics("ignored", {"train.ignore_id=1"});  // the space
  EXPECT_NE(ignored[0].loss, one[0].loss);
  EXPECT_NEAR(ignored[0].loss, one[0].loss, 0.2);
}

// A rate that explodes: the run ends with a message, and the checkpoint before it stays.
TEST_F(Gpt2TrainingTest, StopsWhereTheLossIsNotFinite) {
  const std::vector<std::string> explode = {
      "optimizer.clip_norm=0",    "optimizer.name=sgd",
      "optimizer.weight_decay=0", "optimizer.learning_rate=1e18",
      "optimizer.warmup_steps=4", "train.checkpoint_every=1",
      "train.eval_every=0"};
  const Result<TrainSummary> done = train_in("explodes", explode);
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(done.failure().code, Code::kFailedPrecondition);
  for (const char* word : {"the parameters after step 2 give a loss of nan", "learning_rate",
                           "the last good checkpoint is", "checkpoints/1'"}) {
    EXPECT_NE(done.failure().message.find(word), std::string::npos)
        << word << ": " << done.failure().message;
  }
  const CheckpointReader kept =
      CheckpointReader::open(*folder_ / "explodes" / "checkpoints", "latest").value_or_throw();
  for (const TensorInfo& tensor : kept.tensors()) {
    if (tensor.dtype != DType::kF32) continue;
    const HostArray values = kept.read(tensor.name).value_or_throw();
    for (const float v : values.as<float>()) ASSERT_TRUE(std::isfinite(v)) << tensor.name;
  }
}

// The first update overflows: it is left out and counted, and the rest learns.
TEST_F(Gpt2TrainingTest, LeavesOutAStepThatIsNotFinite) {
  const std::vector<std::string> set = {
      "optimizer.name=sgd",        "optimizer.weight_decay=0",
      "optimizer.schedule=linear", "optimizer.init_learning_rate=1.7e308",
      "optimizer.warmup_steps=1",  "optimizer.learning_rate=0.5",
      "optimizer.clip_norm=0",     "train.nonfinite=skip"};
  const auto lines = metrics("skips", set);
  ASSERT_EQ(lines.size(), 20u);
  EXPECT_EQ(lines.back().skipped_steps, 1);
  EXPECT_LT(lines.back().loss, lines[1].loss - 0.3);
}

// Where one step after another is not finite the run ends, and says which checkpoint is good.
TEST_F(Gpt2TrainingTest, StopsWhereEveryStepIsLeftOut) {
  const Result<TrainSummary> done =
      train_in("all", {"optimizer.name=sgd", "optimizer.weight_decay=0", "optimizer.clip_norm=0",
                       "optimizer.warmup_steps=0", "optimizer.learning_rate=3.4e38",
                       "optimizer.schedule=constant", "train.nonfinite=skip"});
  expect_failure(done, Code::kFailedPrecondition,
                 {"10 steps in a row were left out", "the last good checkpoint is"});
}

// Shapes do not show these: a resumed run, or one that begins with another's parameters, says so.
TEST_F(Gpt2TrainingTest, RefusesParametersOfAnotherModel) {
  metrics("one");
  const std::string recipe = read_file(*folder_ / "one" / "config.toml").value_or_throw();
  expect_failure(train_in("one", {"model.n_head=8", "train.steps=22"}, true),
                 Code::kInvalidArgument, {"model.n_head was 4", "is 8"});
  expect_failure(train_in("one", {"model.n_layer=1", "train.steps=22"}, true),
                 Code::kInvalidArgument, {"model.n_layer was 2", "is 1"});
  EXPECT_EQ(read_file(*folder_ / "one" / "config.toml").value_or_throw(), recipe);
  expect_failure(train_in("other", {"model.activation=gelu",
                                    "train.init_from=" + (*folder_ / "one").string()}),
                 Code::kInvalidArgument, {"model.activation was \"gelu_new\"", "\"gelu\""});
}

TEST_F(Gpt2TrainingTest, BeginsFromAnotherRunsParameters) {
  metrics("one");
  const auto on = metrics("tuned", {"train.init_from=" + (*folder_ / "one").string()});
  EXPECT_LT(on.front().loss, metrics("one").front().loss - 1);
  expect_failure(train_in("none", {"train.init_from=gpt7"}), Code::kNotFound, {"gpt7", "gpt2-xl"});
  expect_failure(train_in("none", {"train.init_from=gpt2-xl"}), Code::kNotFound,
                 {"espalier prepare weights gpt2-xl --out data/weights/gpt2-xl"});
}

// A Hugging Face folder decides all of the model's form, whatever the recipe says: here biases,
// sizes and the activation.
TEST_F(Gpt2TrainingTest, BeginsFromAHuggingFaceFolder) {
  const auto golden = shared_file("golden/gpt2/config.json");
  if (!golden) GTEST_SKIP() << "../shared/golden/gpt2 is not there";
  const auto on = metrics("hf", {"train.init_from=" + golden->parent_path().string(),
                                 "model.activation=gelu", "model.positions=rope", "train.steps=2"});
  EXPECT_NEAR(on.front().loss, std::log(307.0), 0.5);
  const std::string recipe = read_file(*folder_ / "hf" / "config.toml").value_or_throw();
  for (const char* line : {"n_layer = 3", "n_embd = 48", "bias = true", "vocab_size = 307",
                           "positions = \"learned\"", "activation = \"gelu_new\""}) {
    EXPECT_NE(recipe.find(line), std::string::npos) << line;
  }
}

// train.init_from = "resume" goes on with the run in its folder.
TEST_F(Gpt2TrainingTest, InitFromResume) {
  train_in("part", {"train.steps=10"}).value_or_throw();
  train_in("part", {"train.init_from=resume"}).value_or_throw();
  const auto one = metrics("one"), resumed = metrics("part");
  ASSERT_EQ(resumed.size(), one.size());
  for (size_t i = 0; i < one.size(); ++i) EXPECT_EQ(resumed[i].loss, one[i].loss) << i;
}

// 6 FLOPs a parameter of a product and 12 L H K T for attention: Chowdhery et al. (2022), B.
TEST_F(Gpt2TrainingTest, FlopsAreThoseOfTheFormula) {
  const auto model = config({}).make_model(30);
  constexpr double kLayers = 2, kWidth = 32, kSeq = 16, kVocab = 30;
  const double weights = kLayers * 12 * kWidth * kWidth + kVocab * kWidth;
  EXPECT_DOUBLE_EQ(train_flops_per_token(*model, 16), 6 * weights + 12 * kLayers * kWidth * kSeq);
  const auto unrolled = config({"model.layers=unroll"}).make_model(30);
  EXPECT_DOUBLE_EQ(train_flops_per_token(*unrolled, 16), train_flops_per_token(*model, 16));
}

}  // namespace
}  // namespace espalier::test
