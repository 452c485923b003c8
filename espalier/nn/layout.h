// How a model's parameters lie on a mesh.
#pragma once

#include "espalier/nn/param.h"

namespace espalier {

struct ParamLayout {
  TensorType type;     // of the array, padding included
  PartitionSpec spec;  // how it is split
};

// One per parameter. A dim with the logical axis "vocab" that its mesh axes do not divide is padded
// up to a multiple; Ctx hides the padding from the model, and checkpoints leave it out. Any other
// dim that is not divided throws Error naming parameter, dim, axis and size, and so does a pattern
// of [sharding.params] that matches no parameter.
std::vector<ParamLayout> layout_params(const ParamSpecs& specs, const ShardingRules& rules,
                                       const Mesh& mesh);

// Initial values in these layouts, padding zero: drawn as f32, in the parameters' types. The value
// of a parameter depends on `key` (u32[2]), its name and its shape, not on the mesh nor on whether
// layers are stacked.
Tensors initialize(const ParamSpecs& specs, const std::vector<ParamLayout>& layouts,
                   const Tensor& key);

}  // namespace espalier
