// Threefry-2x32 with 20 rounds, the counter-based generator of Salmon et al., "Parallel random
// numbers: as easy as 1, 2, 3" (SC 2011), as jax.random uses it.
#pragma once

#include "espalier/ops/rules.h"

namespace espalier {

// (key word 0, key word 1, counter word 0, counter word 1), all u32 of one shape: two words of it.
struct Threefry {
  ESPALIER_OP_RULES(Threefry, "threefry");
};

struct TwoWords {
  Tensor first, second;
};
TwoWords threefry(const Tensor& key0, const Tensor& key1, const Tensor& count0,
                  const Tensor& count1);

}  // namespace espalier
