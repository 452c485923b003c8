// The compiled programs of training: one step, and the loss of a batch for evaluation.
#pragma once

#include "espalier/data/loader.h"
#include "espalier/train/state.h"

namespace espalier {

struct StepOptions {
  int64_t batch_size = 0;  // rows of one batch
  int64_t seq_len = 0;
  int64_t accumulate = 1;  // batches per step
  uint64_t seed = 0;       // of dropout
};

// What a step reports: one array f32[3] of these, so that reading them is one transfer.
struct StepReport {
  double loss = 0, grad_norm = 0, learning_rate = 0;
};

// Takes the state and a batch to the next state and a report. The state is donated: there is one
// copy of parameters and optimizer arrays at any time.
class TrainStep {
 public:
  // Throws Error where the batch does not fit the mesh.
  static Result<TrainStep> create(const std::shared_ptr<Runtime>& runtime,
                                  const LanguageModel& model, const Optimizer& optimizer,
                                  const StateLayout& layout, const ShardingRules& rules,
                                  const StepOptions& options);

  // Starts a step and returns at once; `state` becomes the next one. The result is read with
  // read_report.
  Result<DeviceArray> run(TrainState& state, const Batch& batch);
  const Program& program() const { return program_; }

 private:
  TrainStep(std::shared_ptr<Runtime> runtime, Program program, DeviceArray key, LayoutPtr tokens)
      : runtime_(std::move(runtime)),
        program_(std::move(program)),
        key_(std::move(key)),
        tokens_(std::move(tokens)) {}
  std::shared_ptr<Runtime> runtime_;
  Program program_;
  DeviceArray key_;
  LayoutPtr tokens_;  // of token ids and targets
};

// Waits for a step and reads its report.
Result<StepReport> read_report(const DeviceArray& report);

// The loss of a batch without dropout.
class EvalStep {
 public:
  static Result<EvalStep> create(const std::shared_ptr<Runtime>& runtime,
                                 const LanguageModel& model, const StateLayout& layout,
                                 const ShardingRules& rules, int64_t batch_size, int64_t seq_len);
  // Waits for the loss.
  Result<double> run(TrainState& state, const Batch& batch);

 private:
  EvalStep(std::shared_ptr<Runtime> runtime, Program program, size_t params, LayoutPtr tokens)
      : runtime_(std::move(runtime)),
        program_(std::move(program)),
        params_(params),
        tokens_(std::move(tokens)) {}
  std::shared_ptr<Runtime> runtime_;
  Program program_;
  size_t params_;
  LayoutPtr tokens_;
};

}  // namespace espalier
