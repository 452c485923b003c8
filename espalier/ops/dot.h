// Matrix products: dot_general and matmul.
#pragma once

#include <optional>

#include "espalier/ops/rules.h"

namespace espalier {

// Result dims: batch dims, then the free dims of the left, then those of the right operand. The
// element type `result` is that of the operands or a wider one to sum in (float32 for bfloat16
// operands).
struct DotGeneral {
  std::vector<int64_t> left_batch, right_batch;
  std::vector<int64_t> left_contract, right_contract;
  DType result;
  ESPALIER_OP_RULES(DotGeneral, "dot_general");
};

// `result`: the element type that products are summed in; that of the operands where not given.
Tensor dot_general(const Tensor& left, const Tensor& right, std::vector<int64_t> left_batch,
                   std::vector<int64_t> right_batch, std::vector<int64_t> left_contract,
                   std::vector<int64_t> right_contract, std::optional<DType> result = {});
// x (..., K) times w (K, N): (..., N). Gradients are dots straight from these arrays, without
// transposed copies.
Tensor matmul(const Tensor& x, const Tensor& w);
// x (..., K) times w (N, K) transposed: (..., N).
Tensor matmul_transposed(const Tensor& x, const Tensor& w);

}  // namespace espalier
