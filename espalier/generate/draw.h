// Drawing tokens from logits on the device. B rows of a batch, V vocabulary.
#pragma once

#include "espalier/ir/tensor.h"

namespace espalier {

struct DrawOptions {
  int64_t top_k = 0;  // draw among the k likeliest tokens; 0: among all
  // Draw among the likeliest tokens whose probabilities first sum to top_p or more, at least one
  // (nucleus sampling, Holtzman et al. 2020), after top_k and temperature; 1: among all.
  double top_p = 1;
};

// Token ids (s32, B) from logits (f32, B × V), divided by `temperature` (f32 scalar; 0: the
// likeliest token, the first of equals). Row b draws with the key fold_in(keys[b], count) (u32,
// B × 2; s32 scalar), the same whatever the other rows are: the largest of logits + gumbel noise,
// where with top_k or top_p the noise belongs to a token's rank and otherwise to its id.
Tensor draw(const Tensor& logits_BV, const DrawOptions& options, const Tensor& temperature,
            const Tensor& keys_B2, const Tensor& count);

}  // namespace espalier
