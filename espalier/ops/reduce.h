// Reductions over dims, and what is built of them.
#pragma once

#include "espalier/ops/rules.h"

namespace espalier {

enum class ReduceKind { kSum, kMax, kMin, kAnd, kOr };

// Reduced dims disappear. Of elements that tie for max or min, each gets an equal share of the
// cotangent, as jax.lax.reduce_max does.
struct Reduce {
  ReduceKind kind;
  std::vector<int64_t> dims;

  std::string_view name() const;
  bool operator==(const Reduce&) const = default;
  std::vector<TensorType> infer(Types in) const;
  Tensors vjp(const VjpArgs& args) const;
  void lower(hlo::Writer& writer, const Node& node) const;
};

// The k largest of the last dim, in falling order, and their indices (s32); equal elements in the
// order of their index.
struct TopK {
  int64_t k;
  ESPALIER_OP_RULES(TopK, "top_k");
};

// Negative dims count from the end; without dims, over all.
Tensor reduce(ReduceKind kind, const Tensor& x, std::vector<int64_t> dims);
Tensor reduce_sum(const Tensor& x, std::vector<int64_t> dims);
Tensor reduce_sum(const Tensor& x);
Tensor reduce_max(const Tensor& x, std::vector<int64_t> dims);
Tensor reduce_min(const Tensor& x, std::vector<int64_t> dims);
// As reduce_*, the reduced dims kept with size 1.
Tensor keep_dims(const Tensor& reduced, const Tensor& x, const std::vector<int64_t>& dims);
Tensor mean(const Tensor& x, std::vector<int64_t> dims);
// Index (s32) of the first largest element along a dim.
Tensor argmax(const Tensor& x, int64_t dim);
struct TopKResult {
  Tensor values, indices;
};
TopKResult top_k(const Tensor& x, int64_t k);

}  // namespace espalier
