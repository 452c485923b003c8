// What a model gives for one batch, gathered on the host: for comparing it with another program.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "espalier/train/step.h"

namespace espalier {

// Rows that a batch is padded to, so that the mesh's axes that split it divide them.
int64_t padded_rows(int64_t rows, const ShardingRules& rules, const Mesh& mesh);

struct ModelOutputs {
  HostArray logits;  // f32 (B, T, V)
  double loss = 0;   // mean cross-entropy in nats over all positions
  // The loss's gradient by each parameter, as a checkpoint names and shapes it (layers one by one,
  // no padding), in the order of StoredArray::names; f32.
  std::vector<std::pair<std::string, HostArray>> gradients;
};

// All of them from one compiled program, no dropout. `tokens` and `targets` are s32 (B, T) of ids
// below the vocabulary; rows are added that count for nothing where the mesh does not divide B.
// `params` are in the order of the model's. Throws Error where shapes do not fit.
Result<ModelOutputs> model_outputs(const std::shared_ptr<Runtime>& runtime, const ModelOnMesh& on,
                                   std::span<DeviceArray* const> params, const HostArray& tokens,
                                   const HostArray& targets);

}  // namespace espalier
