// The compiled programs of training: one step, and the loss of a batch for evaluation.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "espalier/data/loader.h"
#include "espalier/models/language_model.h"
#include "espalier/runtime/saved_program.h"
#include "espalier/train/state.h"

namespace espalier {

// A model as it runs on a mesh.
struct ModelOnMesh {
  const LanguageModel& model;
  const ShardingRules& rules;
  DType dtype = DType::kF32;           // it computes in
  std::optional<RematPolicy> remat{};  // of layers; unset: what a backward pass reads is kept

  // Where calls run: a mesh of the platform's devices, laid out by `rules`.
  PlacementPtr place(std::string platform, const Mesh& mesh) const;
  PlacementPtr place(const Runtime& runtime) const;
  // The context of a call with these parameters. Throws Error where `remat` asks for a memory that
  // the platform has not.
  Ctx context(PlacementPtr placement, Tensors params) const;
};

struct StepOptions {
  int64_t batch_size = 0;  // rows of one batch
  int64_t seq_len = 0;
  int64_t accumulate = 1;  // batches per step
  uint64_t seed = 0;       // of dropout
  double z_loss = 0;       // see LossOptions
  std::optional<int64_t> ignore_id{};
  // A step whose loss, gradient or update is not finite leaves parameters and optimizer arrays as
  // they were. It counts as a step, in the schedule and in Adam's bias correction too.
  bool skip_nonfinite = false;
};

// What a step reports. The loss is the mean over the batch's positions that count, z_loss included.
struct StepReport {
  double loss = 0, grad_norm = 0, learning_rate = 0;
  // Whether the loss, the gradient or what the update made of the state was not finite, and the
  // parameter, as a checkpoint names it, whose gradient was not: the first of them, or none.
  bool nonfinite = false;
  std::string nonfinite_parameter{};
  // When the step was dispatched, and when it was done: now_seconds().
  double dispatched_seconds = 0, done_seconds = 0;
};

// A report on its way; TrainStep::read waits for it.
struct PendingReport {
  DeviceArray values;
  double dispatched_seconds = 0;
  // 0 until the plugin says that the step is done.
  std::shared_ptr<const std::atomic<double>> done_seconds{};
};

// A batch on its way to the devices.
struct StepInput {
  DeviceArray tokens, targets;
};

// The training step as a function with the layouts of its arguments (the state's arrays, key,
// tokens, targets) and results, for devices that need not be here: TrainStep compiles the same.
// Nothing is allocated. Throws Error where the batch does not fit the placement's mesh.
ProgramSpec train_step_spec(const ModelOnMesh& on, const PlacementPtr& placement,
                            const Optimizer& optimizer, const StateLayout& layout,
                            const StepOptions& options);

// Takes the state and a batch to the next state and a report. The state is donated: there is one
// copy of parameters and optimizer arrays at any time.
class TrainStep {
 public:
  // Throws Error where the batch does not fit the mesh. `saved`: the step as an earlier process
  // compiled it, loaded instead of being compiled; kInvalidArgument where it is another program.
  static Result<TrainStep> create(const std::shared_ptr<Runtime>& runtime, const ModelOnMesh& on,
                                  const Optimizer& optimizer, const StateLayout& layout,
                                  const StepOptions& options, const SavedProgram* saved = nullptr);

  // Starts a batch's transfer and returns at once; the batch's lease is kept until it is over.
  Result<StepInput> put(const Batch& batch) const;
  // Starts a step and returns at once; `state` becomes the next one.
  Result<PendingReport> run(TrainState& state, StepInput input);
  Result<PendingReport> run(TrainState& state, const Batch& batch);
  // Waits for a step and reads its report.
  Result<StepReport> read(const PendingReport& report) const;
  const Program& program() const { return program_; }

 private:
  TrainStep(std::shared_ptr<Runtime> runtime, Program program, DeviceArray key, LayoutPtr tokens,
            std::vector<std::string> names)
      : runtime_(std::move(runtime)),
        program_(std::move(program)),
        key_(std::move(key)),
        tokens_(std::move(tokens)),
        names_(std::move(names)) {}
  std::shared_ptr<Runtime> runtime_;
  Program program_;
  DeviceArray key_;
  LayoutPtr tokens_;                // of token ids and targets
  std::vector<std::string> names_;  // of parameters, in the order that the report numbers them
};

// The loss of a batch as a sum over positions and how many they are: no dropout, no z_loss.
struct EvalLoss {
  double sum = 0, count = 0;
};

class EvalStep {
 public:
  static Result<EvalStep> create(const std::shared_ptr<Runtime>& runtime, const ModelOnMesh& on,
                                 int64_t batch_size, int64_t seq_len,
                                 std::optional<int64_t> ignore_id = {});
  // Waits for the loss. `params` are pointers to the model's parameters in their order.
  Result<EvalLoss> run(std::span<DeviceArray* const> params, const Batch& batch);

 private:
  EvalStep(std::shared_ptr<Runtime> runtime, Program program, LayoutPtr tokens)
      : runtime_(std::move(runtime)), program_(std::move(program)), tokens_(std::move(tokens)) {}
  std::shared_ptr<Runtime> runtime_;
  Program program_;
  LayoutPtr tokens_;
};

// Products' FLOPs (a multiplication and an addition are two) that a model needs for each token in
// training: those of its forward pass with dense attention, counted in its graph, times three. What
// a gradient computes again is not counted.
double train_flops_per_token(const LanguageModel& model, int64_t seq_len);

}  // namespace espalier
