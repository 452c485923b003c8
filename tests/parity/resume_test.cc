// A run that is stopped, by a signal or a kill, and resumed writes what a run that was never
// stopped writes: metrics, bit for bit and times apart, and samples.
#include <gtest/gtest.h>

#include <cmath>
#include <csignal>

#include "cli/text_sampler.h"
#include "espalier/train/metrics.h"
#include "espalier/train/run_folder.h"
#include "espalier/train/trainer.h"
#include "tests/support/program.h"
#include "tests/unit/data_testing.h"

namespace espalier::test {
namespace {
namespace fs = std::filesystem;

// Never a whole number of each other, so that stops fall between lines, checkpoints and texts.
constexpr int64_t kSteps = 60, kLogEvery = 7, kEvalEvery = 10, kCheckpointEvery = 16,
                  kSampleEvery = 9;

std::string recipe_text(const fs::path& folder, int64_t steps) {
  return R"([model]
maxlen = 16
embed_dim = 16
num_heads = 4
feed_forward_dim = 24
num_transformer_blocks = 2
dropout = 0.1
[data]
source = "text"
path = ")" +
         (folder / "text.txt").string() +
         R"("
tokenizer = "char"
seq_len = 16
batch_size = 8
cache_dir = ")" +
         (folder / "tokens").string() +
         R"("
[optimizer]
schedule = "cosine"
decay_steps = 60
warmup_steps = 5
clip_norm = 1.0
[train]
steps = )" +
         std::to_string(steps) + "\nlog_every = " + std::to_string(kLogEvery) +
         "\neval_every = " + std::to_string(kEvalEvery) +
         "\neval_batches = 2\ncheckpoint_every = " + std::to_string(kCheckpointEvery) +
         "\n[sample]\nprompt = \"the \"\nevery = " + std::to_string(kSampleEvery) +
         "\n[logging]\nplot = false\n";
}

class ResumeTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::make_unique<TemporaryFolder>();
    ::setenv("ESPALIER_CACHE", (*folder_ / "cache").c_str(), 1);
    std::string text;
    for (int i = 0; i < 300; ++i) {
      text += "the " + std::to_string(i * i % 97) + " foxes jump over " + std::to_string(i % 13) +
              " dogs\n";
    }
    folder_->write("text.txt", text);
    folder_->write("recipe.toml", recipe_text(*folder_ / "", kSteps));
    train_here(*folder_ / "whole", {}, false);
  }
  static void TearDownTestSuite() { folder_.reset(); }

  // Trains in this process; a SIGTERM is raised after each step of `stop_after` (the sampler is
  // asked after every step and tells the time).
  static TrainSummary train_here(const fs::path& run, std::optional<int64_t> stop_after,
                                 bool resume, const std::vector<std::string>& set = {}) {
    TrainRequest request;
    request.config = load_run_config(*folder_ / "recipe.toml", set).value_or_throw();
    request.run = run;
    request.resume = resume;
    if (stop_after) request.config.sample.every = 1;
    request.make_sampler = [&](const Session& session) -> Result<SampleText> {
      ESPALIER_ASSIGN(SampleText sample, make_training_sampler(session));
      return SampleText([=](TrainState& state, int64_t step) -> Result<std::string> {
        if (stop_after && step == *stop_after) std::raise(SIGTERM);
        // Texts of the ordinary times only are made, as in the run that is not stopped.
        if (step % kSampleEvery != 0 && step != kSteps) return std::string("-");
        return sample(state, step);
      });
    };
    return train(request).value_or_throw();
  }

  // Metrics without times, numbers exactly; of samples only those of the ordinary times.
  static std::vector<std::string> record(const fs::path& run) {
    std::vector<std::string> out;
    for (const StepMetrics& m : read_metrics(run / "metrics.jsonl").value_or_throw()) {
      char line[200];
      std::snprintf(line, sizeof(line), "%ld loss %a lr %a grad %a val %a", m.step, m.loss, m.lr,
                    m.grad_norm, m.val_loss.value_or(-1));
      out.emplace_back(line);
    }
    for (const Sample& s : read_samples(run / "samples.txt").value_or_throw()) {
      if (s.step % kSampleEvery == 0 || s.step == kSteps) {
        out.push_back(std::to_string(s.step) + " | " + s.prompt + " | " + s.text);
      }
    }
    return out;
  }

  static std::vector<double> losses(const fs::path& run) {
    std::vector<double> out;
    for (const StepMetrics& m : read_metrics(run / "metrics.jsonl").value_or_throw()) {
      out.push_back(m.loss);
    }
    return out;
  }

  static std::unique_ptr<TemporaryFolder> folder_;
};
std::unique_ptr<TemporaryFolder> ResumeTest::folder_;

TEST_F(ResumeTest, TheWholeRunHasAllThatIsCompared) {
  const auto all = record(*folder_ / "whole");
  const auto metrics = read_metrics(*folder_ / "whole" / "metrics.jsonl").value_or_throw();
  EXPECT_EQ(metrics.back().step, kSteps);
  EXPECT_LT(metrics.back().loss, metrics.front().loss);
  EXPECT_EQ(metrics.size(), 14u);             // multiples of 7 and of 10 up to 60, and 60
  EXPECT_EQ(all.size(), metrics.size() + 8);  // texts at 0, 9, ... 54 and 60
}

TEST_F(ResumeTest, StoppedAfterAnyStep) {
  const auto want = record(*folder_ / "whole");
  for (const int64_t stop : {0, 1, 6, 7, 10, 16, 17, 33, 59}) {
    const fs::path run = *folder_ / ("stop-" + std::to_string(stop));
    const TrainSummary first = train_here(run, stop, false);
    EXPECT_EQ(first.steps, stop);
    EXPECT_EQ(first.signal, SIGTERM);
    const TrainSummary second = train_here(run, {}, true);
    EXPECT_EQ(second.steps, kSteps);
    EXPECT_EQ(second.signal, 0);
    EXPECT_EQ(record(run), want) << "stopped after " << stop;
  }
}

TEST_F(ResumeTest, StoppedManyTimes) {
  const fs::path run = *folder_ / "often";
  train_here(run, 3, false);
  for (const int64_t stop : {4, 12, 13, 30, 31, 58}) train_here(run, stop, true);
  train_here(run, {}, true);
  EXPECT_EQ(record(run), record(*folder_ / "whole"));
  // Resuming what is done changes nothing.
  const auto before = read_file(run / "metrics.jsonl").value_or_throw();
  EXPECT_EQ(train_here(run, {}, true).steps, kSteps);
  EXPECT_EQ(read_file(run / "metrics.jsonl").value_or_throw(), before);
}

TEST_F(ResumeTest, FewerStepsFirst) {
  const fs::path run = *folder_ / "fewer";
  train_here(run, {}, false, {"train.steps=14"});  // a line and a text stand there anyway
  train_here(run, {}, true);
  // The shorter run's last step was evaluated, so its line has a val_loss that the other's lacks.
  auto got = record(run), want = record(*folder_ / "whole");
  const auto at_14 = [](const std::string& line) { return line.starts_with("14 loss"); };
  EXPECT_EQ(std::erase_if(got, at_14), 1u);
  EXPECT_EQ(std::erase_if(want, at_14), 1u);
  EXPECT_EQ(got, want);
  EXPECT_EQ(losses(run), losses(*folder_ / "whole"));
}

// The position in the data means nothing in other data, or in another order of it.
TEST_F(ResumeTest, OtherDataIsRefused) {
  const fs::path run = *folder_ / "other-data";
  train_here(run, 10, false);
  const auto refused = [&](const std::string& set) -> std::string {
    try {
      train_here(run, {}, true, {set});
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::kInvalidArgument);
      return error.what();
    }
    return "";
  };
  EXPECT_NE(refused("data.seed=9").find("data.seed was"), std::string::npos);
  EXPECT_NE(refused("data.shuffle=false").find("data.shuffle was"), std::string::npos);
  // The same letters in another order.
  std::string text = read_file(*folder_ / "text.txt").value_or_throw();
  std::reverse(text.begin(), text.end());
  folder_->write("reversed.txt", text);
  const std::string path = (*folder_ / "reversed.txt").string();
  EXPECT_NE(refused("data.path=" + path).find("the tokenized text was"), std::string::npos);
  // Nothing was lost: the run still goes on.
  EXPECT_EQ(train_here(run, {}, true).steps, kSteps);
  EXPECT_EQ(record(run), record(*folder_ / "whole"));
}

TEST_F(ResumeTest, OnAnotherMesh) {
  const auto want = losses(*folder_ / "whole");
  const std::string both = "mesh.axes={batch = 4, model = 2}", data = "mesh.axes={batch = 8}";
  const std::vector<std::vector<std::string>> ways = {{both, ""}, {"", data}, {both, data}};
  for (size_t i = 0; i < ways.size(); ++i) {
    const fs::path run = *folder_ / ("mesh-" + std::to_string(i));
    const auto set = [&](size_t k) {
      return ways[i][k].empty() ? std::vector<std::string>{} : std::vector{ways[i][k]};
    };
    train_here(run, 25, false, set(0));
    train_here(run, {}, true, set(1));
    const auto got = losses(run);
    ASSERT_EQ(got.size(), want.size());
    for (size_t k = 0; k < got.size(); ++k) {
      EXPECT_NEAR(got[k], want[k], 1e-4 * want[k]) << "line " << k << ", way " << i;
    }
  }
}

// The real program, stopped from outside at whatever step it happens to be.
class ResumeProgramTest : public ResumeTest {
 protected:
  static constexpr int64_t kLong = 2000;
  std::vector<std::string> arguments(const fs::path& run, bool resume) {
    std::vector<std::string> out = {"train",
                                    (*folder_ / "recipe.toml").string(),
                                    "--set=train.steps=" + std::to_string(kLong),
                                    "--set=optimizer.decay_steps=" + std::to_string(kLong),
                                    "--set=sample.every=90",
                                    "--set=train.eval_every=100",
                                    "--set=train.checkpoint_every=64",
                                    "--run",
                                    run.string()};
    if (resume) out.push_back("--resume");
    return out;
  }
  static int64_t last_step(const fs::path& run) {
    const auto metrics = read_metrics(run / "metrics.jsonl");
    return metrics.ok() && !metrics->empty() ? metrics->back().step : 0;
  }
  Ended finish(const fs::path& run, bool resume) {
    Child child(arguments(run, resume), *folder_ / "child");
    return child.wait();
  }
};

TEST_F(ResumeProgramTest, SignalsAndKills) {
  const fs::path whole = *folder_ / "long";
  expect_ended(finish(whole, false), 0, {"done: 2000 steps"});
  const fs::path run = *folder_ / "interrupted";
  int64_t interruptions = 0, seen = 0;
  for (const int signal : {SIGKILL, SIGTERM, SIGKILL, SIGINT, SIGKILL, SIGTERM}) {
    const bool resume = interruptions > 0;
    Child child(arguments(run, resume), *folder_ / "child");
    // Before the first checkpoint, then ever later.
    const int64_t until = resume ? seen + 150 : 10;
    ASSERT_TRUE(child.wait_until([&] { return last_step(run) >= until; }));
    child.send(signal);
    const Ended ended = child.wait();
    seen = last_step(run);
    ++interruptions;
    if (signal == SIGKILL) {
      EXPECT_EQ(ended.signal, SIGKILL);
    } else {
      expect_ended(
          ended, 0,
          {"stopped by a signal after step", "espalier train " + (run / "config.toml").string() +
                                                 " --run " + run.string() + " --resume"});
    }
  }
  ASSERT_LT(seen, kLong) << "the run was over before it was interrupted";
  expect_ended(finish(run, true), 0, {"resumed after step", "done: 2000 steps"});
  EXPECT_EQ(record(run), record(whole));
}

}  // namespace
}  // namespace espalier::test
