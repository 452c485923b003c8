// Evaluation: the mean loss over a fixed set of held-out rows.
#pragma once

#include "espalier/train/setup.h"

namespace espalier {

// The compiled program that evaluation and probing share.
Result<std::shared_ptr<EvalStep>> make_eval_step(const RunSetup& setup);

class Evaluation {
 public:
  // Takes config.train.eval_batches batches, 0: all. Says so on standard output where fewer are
  // held out. kInvalidArgument where not even one is.
  static Result<Evaluation> create(const RunSetup& setup, std::shared_ptr<EvalStep> step);
  // Mean over all positions that count, in nats.
  Result<double> run(TrainState& state);

 private:
  Evaluation(std::shared_ptr<EvalStep> step, std::shared_ptr<const RowSource> rows,
             LoaderOptions options, int64_t batches, size_t params)
      : step_(std::move(step)),
        rows_(std::move(rows)),
        options_(options),
        batches_(batches),
        params_(params) {}
  std::shared_ptr<EvalStep> step_;
  std::shared_ptr<const RowSource> rows_;
  LoaderOptions options_;
  int64_t batches_;
  size_t params_;
};

// Whether parameters are worth keeping: the loss of one batch of the training rows.
class Probe {
 public:
  static Result<Probe> create(const RunSetup& setup, std::shared_ptr<EvalStep> step);
  Result<double> loss(TrainState& state);

 private:
  Probe(std::shared_ptr<EvalStep> step, Batch batch, size_t params)
      : step_(std::move(step)), batch_(std::move(batch)), params_(params) {}
  std::shared_ptr<EvalStep> step_;
  Batch batch_;
  size_t params_;
};

}  // namespace espalier
