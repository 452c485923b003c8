// What the tests of attention share: random operands, an attention with its gradients, and how far
// arrays are apart.
#pragma once

#include <functional>

#include "espalier/runtime/program.h"

namespace espalier::test {

struct AttentionShape {
  int64_t batch, length, heads, key_heads, width;
  // q, k, v, and the cotangent of the result.
  std::vector<TensorType> types(DType dtype = DType::kF32) const {
    const TensorType q{dtype, {batch, length, heads, width}},
        kv{dtype, {batch, length, key_heads, width}};
    return {q, kv, kv, q};
  }
};

using Build = std::function<Tensor(const Tensor& q, const Tensor& k, const Tensor& v)>;

// The result and the gradients of q, k and v.
Function with_gradients(const AttentionShape& shape, const Build& build, DType dtype = DType::kF32);

// The largest difference, as a part of the largest element; as it is where that is 0. Infinite
// where `a` has an element that is not finite.
double apart(const HostArray& a, const HostArray& b);

// All arguments and results split alike.
ProgramSpec program_of(const Function& function, const PartitionSpec& spec);

}  // namespace espalier::test
