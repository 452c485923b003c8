// A training run small enough to be compiled and run many times.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "espalier/models/minigpt.h"
#include "espalier/train/step.h"

namespace espalier::test {

struct TinyOptions {
  std::vector<MeshAxis> axes{};
  std::string layers = "scan";
  double dropout = 0;
  int64_t accumulate = 1;
  int64_t batch_size = 8;
  int64_t vocab_size = 61;  // odd: "model" = 2 does not divide it
  std::filesystem::path program_cache{};
};

inline constexpr int64_t kTinySeqLen = 16;

// Model, optimizer and state on a mesh; AdamW with clipping and decay. The step is compiled when
// it is first used.
class TinyTraining {
 public:
  explicit TinyTraining(const TinyOptions& options);

  // Tokens of a step: a function of the step and the place alone. The next token is mostly a
  // function of the one before, so that there is something to learn.
  Batch batch(int64_t step) const;
  TrainStep& step();
  // Runs steps [from, to) and returns their reports.
  std::vector<StepReport> run(int64_t from, int64_t to);
  // Every stored tensor of the state by its name in a checkpoint, padding left out.
  std::map<std::string, HostArray> stored_values() const;

  TinyOptions options;
  Mesh mesh;
  ShardingRules rules;
  std::shared_ptr<Runtime> runtime;
  std::unique_ptr<LanguageModel> model;
  std::unique_ptr<Optimizer> optimizer;
  std::unique_ptr<StateLayout> layout;
  TrainState state;

 private:
  std::unique_ptr<TrainStep> step_;
};

}  // namespace espalier::test
