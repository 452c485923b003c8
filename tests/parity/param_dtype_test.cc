// Parameters held in bfloat16 and trained by SGD on random tokens: what checkpoints hold, that a
// resumed run goes on as one that was never stopped, with layers computed again or not.
#include <gtest/gtest.h>

#include <cmath>

#include "espalier/checkpoint/store.h"
#include "espalier/train/metrics.h"
#include "espalier/train/trainer.h"
#include "tests/support/error_of.h"
#include "tests/unit/data_testing.h"

namespace espalier::test {
namespace {
namespace fs = std::filesystem;

constexpr const char* kRecipe = R"([model]
name = "gpt2"
vocab_size = 61
n_positions = 16
n_embd = 16
n_layer = 2
n_head = 2
dropout = 0.1
[data]
source = "synthetic"
seq_len = 16
batch_size = 8
[optimizer]
name = "sgd"
learning_rate = 0.2
[train]
steps = 4
log_every = 1
eval_every = 2
eval_batches = 2
checkpoint_every = 2
accumulate = 2
param_dtype = "bfloat16"
[logging]
plot = false
tensorboard = false
)";

class ParamDtypeTest : public testing::Test {
 protected:
  void SetUp() override {
    ::setenv("ESPALIER_CACHE", (folder_ / "cache").c_str(), 1);
    recipe_ = folder_.write("recipe.toml", kRecipe);
  }
  Result<TrainSummary> train_in(const char* run, const std::vector<std::string>& set = {},
                                bool resume = false) {
    TrainRequest request;
    ESPALIER_ASSIGN(request.config, load_run_config(recipe_, set));
    request.run = folder_ / run;
    request.resume = resume;
    return train(request);
  }
  std::vector<double> losses(const char* run) {
    std::vector<double> out;
    for (const StepMetrics& m : read_metrics(folder_ / run / "metrics.jsonl").value_or_throw()) {
      out.push_back(m.loss);
      if (m.val_loss) out.push_back(*m.val_loss);
    }
    return out;
  }

  TemporaryFolder folder_;
  fs::path recipe_;
};

TEST_F(ParamDtypeTest, Bfloat16IsTrainedStoredAndResumed) {
  train_in("whole").value_or_throw();
  const std::vector<double> whole = losses("whole");
  ASSERT_EQ(whole.size(), 6U);
  // Nothing is to be learned but that all ids are as likely.
  for (const double loss : whole) EXPECT_NEAR(loss, std::log(61.0), 0.2);

  const auto reader =
      CheckpointReader::open(folder_ / "whole" / "checkpoints", "latest").value_or_throw();
  for (const TensorInfo& tensor : reader.tensors()) {
    EXPECT_EQ(tensor.dtype, tensor.name == "step" ? DType::kS32 : DType::kBF16) << tensor.name;
  }

  train_in("parts", {"train.steps=2"}).value_or_throw();
  const auto other = train_in("parts", {"train.param_dtype=float32"}, true);
  ASSERT_FALSE(other.ok());
  EXPECT_EQ(other.failure().code, Code::kInvalidArgument);
  for (const char* part : {"is bf16[", "but the model has f32[", "set train.param_dtype"}) {
    EXPECT_NE(other.failure().message.find(part), std::string::npos) << other.failure().message;
  }
  train_in("parts", {}, true).value_or_throw();
  EXPECT_EQ(losses("parts"), whole);
  EXPECT_FALSE(fs::exists(folder_ / "whole" / "samples.txt"));

  // Parameters of another type can begin a run of their own.
  train_in("wide", {"train.param_dtype=float32", "train.steps=1",
                    "train.init_from=" + (folder_ / "whole").string()})
      .value_or_throw();
  train_in("again", {"train.remat=everything"}).value_or_throw();
  const std::vector<double> again = losses("again");
  // Rounding of a weight near a tie may differ: 2^-9 of it.
  for (size_t i = 0; i < whole.size(); ++i) EXPECT_NEAR(again[i], whole[i], 1e-3);
}

}  // namespace
}  // namespace espalier::test
