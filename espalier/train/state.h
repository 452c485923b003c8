// TrainState: everything that a step changes and a checkpoint keeps: parameters, the optimizer's
// arrays and the number of steps done.
#pragma once

#include "espalier/checkpoint/arrays.h"
#include "espalier/nn/layout.h"
#include "espalier/optim/optimizer.h"
#include "espalier/runtime/program.h"

namespace espalier {

// What the state consists of on a mesh. Arrays are ordered: parameters, optimizer arrays, step.
class StateLayout {
 public:
  // Throws Error where the model does not fit the mesh.
  StateLayout(const ParamSpecs& specs, const Optimizer& optimizer, const ShardingRules& rules,
              const Mesh& mesh);

  size_t num_params() const { return params_.size(); }
  size_t size() const { return arrays_.size(); }  // arrays, the step included
  const std::vector<ParamLayout>& params() const { return params_; }
  const std::vector<ParamInfo>& infos() const { return infos_; }
  const std::vector<Argument>& arrays() const { return arrays_; }
  const std::vector<StoredArray>& stored() const { return stored_; }

 private:
  std::vector<ParamLayout> params_;
  std::vector<ParamInfo> infos_;
  std::vector<Argument> arrays_;
  std::vector<StoredArray> stored_;
};

using TrainState = std::vector<DeviceArray>;

// Fresh state from a compiled, sharded initializer: no host ever holds a whole array.
Result<TrainState> make_state(const std::shared_ptr<Runtime>& runtime, const ParamSpecs& specs,
                              const StateLayout& layout, uint64_t seed);

// How a model's parameters are named and shaped in a checkpoint.
StoredArray stored_param(const ParamSpec& spec);

// The parameters alone, for generation and evaluation, from a checkpoint or other weights of any
// floating-point type.
Result<std::vector<DeviceArray>> load_params(const std::shared_ptr<Runtime>& runtime,
                                             const ParamSpecs& specs, const ShardingRules& rules,
                                             const TensorSource& source);
Result<TrainState> load_state(const std::shared_ptr<Runtime>& runtime, const StateLayout& layout,
                              const CheckpointReader& reader);
Status save_state(CheckpointWriter& writer, const StateLayout& layout, const TrainState& state);

}  // namespace espalier
