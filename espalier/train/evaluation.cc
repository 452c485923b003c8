#include "espalier/train/evaluation.h"

#include <fmt/format.h>

#include "espalier/base/log.h"

namespace espalier {

namespace {

std::vector<DeviceArray*> pointers(TrainState& state, size_t count) {
  std::vector<DeviceArray*> out;
  for (size_t i = 0; i < count; ++i) out.push_back(&state[i]);
  return out;
}

}  // namespace

Result<std::shared_ptr<EvalStep>> make_eval_step(const RunSetup& setup) {
  const RunConfig& config = setup.config;
  ESPALIER_ASSIGN(EvalStep step,
                  EvalStep::create(setup.runtime, setup.on_mesh(), config.data.batch_size,
                                   config.data.seq_len, config.train.ignore_id));
  return std::make_shared<EvalStep>(std::move(step));
}

Result<Evaluation> Evaluation::create(const RunSetup& setup, std::shared_ptr<EvalStep> step) {
  const RunConfig& config = setup.config;
  const auto rows = setup.dataset->validation();
  LoaderOptions options;
  options.batch_size = config.data.batch_size;  // in a shuffled order, always the same one
  const int64_t all = rows->rows() / options.batch_size;
  if (all == 0) {
    return Failure{Code::kInvalidArgument,
                   fmt::format("train.eval_every is set, but only {} rows are held out for "
                               "validation and a batch has {}; {}, lower data.batch_size, or set "
                               "train.eval_every = 0",
                               rows->rows(), options.batch_size,
                               config.data.source == "bin" ? "lengthen val.bin"
                                                           : "raise data.validation_fraction")};
  }
  const int64_t wanted = config.train.eval_batches;
  const int64_t batches = wanted == 0 ? all : std::min(wanted, all);
  if (batches < wanted) {
    out().info("evaluation takes {} batches, all that are held out, and not {}", batches, wanted);
  }
  return Evaluation(std::move(step), rows, options, batches, setup.layout->num_params());
}

Result<double> Evaluation::run(TrainState& state) {
  const std::vector<DeviceArray*> params = pointers(state, params_);
  // A loader of its own each time: the same rows in the same order.
  ESPALIER_ASSIGN(const auto loader, Loader::start(rows_, options_));
  double sum = 0, count = 0;
  for (int64_t i = 0; i < batches_; ++i) {
    ESPALIER_ASSIGN(const Batch batch, loader->next());
    ESPALIER_ASSIGN(const EvalLoss loss, step_->run(params, batch));
    sum += loss.sum;
    count += loss.count;
  }
  return sum / std::max(count, 1.0);
}

Result<Probe> Probe::create(const RunSetup& setup, std::shared_ptr<EvalStep> step) {
  LoaderOptions options;
  options.batch_size = setup.config.data.batch_size;
  options.slots = 1;
  ESPALIER_ASSIGN(const auto loader, Loader::start(setup.dataset->train(), options));
  ESPALIER_ASSIGN(Batch batch, loader->next());
  return Probe(std::move(step), std::move(batch), setup.layout->num_params());
}

Result<double> Probe::loss(TrainState& state) {
  ESPALIER_ASSIGN(const EvalLoss loss, step_->run(pointers(state, params_), batch_));
  return loss.sum / std::max(loss.count, 1.0);
}

}  // namespace espalier
