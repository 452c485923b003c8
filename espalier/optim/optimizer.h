// Optimizer: turns gradients into new parameters, as ordinary traced operations.
//
// Parameters are named; the optimizer's own arrays, the state, are named after them
// ("optimizer.m.layers.0.wq.weight") and laid out like them. State begins as zeros. The number of
// updates done so far is the caller's to keep: an s32 scalar, 0 at the first update.
//
// All arithmetic and state is f32, whatever the parameters and gradients are.
//
//   ESPALIER_ASSIGN(Optimizer optimizer, make_optimizer(config));
//   for (const StateInfo& s : optimizer.state(infos)) ...   // allocate zeros like infos[s.param]
//   OptimizerUpdate next = optimizer.update(infos, params, grads, state, step);
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "espalier/ir/tensor.h"
#include "espalier/optim/config.h"
#include "espalier/optim/rule.h"
#include "espalier/optim/schedule.h"

namespace espalier {

struct StateInfo {
  std::string name;  // "optimizer.<m or v>.<parameter>"
  TensorType type;
  size_t param;  // index of the parameter whose sharding it has
};

struct OptimizerUpdate {
  Tensors params, state;  // in the order given
  Tensor grad_norm;       // f32 scalar: L2 norm over all gradients, before clipping
  // Per parameter f32 (layers), (1) where it is not stacked: the sum of its gradient's squares. Not
  // finite where an element is not, or where its square leaves f32's range.
  Tensors grad_squares;
  Tensor learning_rate;  // f32 scalar used in this update
};

// An immutable value; safe to share between threads.
class Optimizer {
 public:
  Optimizer(Schedule schedule, double clip_norm, std::shared_ptr<const UpdateRule> rule)
      : schedule_(std::move(schedule)), clip_norm_(clip_norm), rule_(std::move(rule)) {}

  const Schedule& schedule() const { return schedule_; }

  // The state's arrays, in the order that update() takes them.
  std::vector<StateInfo> state(const std::vector<ParamInfo>& infos) const;

  // One update. Gradients have their parameter's shape and any floating-point type. Throws Error
  // naming the parameter on a wrong count, type or shape.
  OptimizerUpdate update(const std::vector<ParamInfo>& infos, const Tensors& params,
                         const Tensors& grads, const Tensors& state, const Tensor& step) const;

 private:
  Schedule schedule_;
  double clip_norm_;
  std::shared_ptr<const UpdateRule> rule_;
};

// kInvalidArgument as validate(config) gives it.
Result<Optimizer> make_optimizer(const OptimizerConfig& config);

// f32 arrays scaled so that their global norm is at most `limit`: as they are where `norm`, their
// norm, is below it (optax.clip_by_global_norm).
Tensors clip_by_global_norm(const Tensors& arrays, const Tensor& norm, double limit);

}  // namespace espalier
