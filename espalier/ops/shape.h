// Operations that move elements without computing: reshape, broadcast, transpose, slice, pad,
// concatenate, reverse, and slices at computed places.
#pragma once

#include "espalier/ops/rules.h"

namespace espalier {

// Same elements in row-major order.
struct Reshape {
  Dims dims;
  ESPALIER_OP_RULES(Reshape, "reshape");
};

// Operand dim i becomes result dim map[i] (ascending); its size is 1 or the result's.
struct BroadcastInDim {
  Dims dims;
  std::vector<int64_t> map;
  ESPALIER_OP_RULES(BroadcastInDim, "broadcast_in_dim");
};

// Result dim i is operand dim permutation[i].
struct Transpose {
  std::vector<int64_t> permutation;
  ESPALIER_OP_RULES(Transpose, "transpose");
};

// Elements start, start + stride, ... below limit in each dim.
struct Slice {
  Dims start, limit, stride;
  ESPALIER_OP_RULES(Slice, "slice");
};

// (operand, scalar): `low` and `high` elements of the scalar at the ends of each dim (negative
// takes elements away) and `interior` between elements.
struct Pad {
  Dims low, high, interior;
  ESPALIER_OP_RULES(Pad, "pad");
};

// Operands one after another along `dim`.
struct Concatenate {
  int64_t dim = 0;
  ESPALIER_OP_RULES(Concatenate, "concatenate");
};

struct Reverse {
  std::vector<int64_t> dims;
  ESPALIER_OP_RULES(Reverse, "reverse");
};

// (operand, one integer scalar per dim): a block of shape `dims` whose first element is at the
// indices, moved inside the operand where it would not fit (as StableHLO clamps).
struct DynamicSlice {
  Dims dims;
  ESPALIER_OP_RULES(DynamicSlice, "dynamic_slice");
};

// (operand, update, one integer scalar per dim): the operand with the block replaced.
struct DynamicUpdateSlice {
  ESPALIER_OP_RULES(DynamicUpdateSlice, "dynamic_update_slice");
};

// One size may be -1: it is computed.
Tensor reshape(const Tensor& x, Dims dims);
Tensor broadcast_in_dim(const Tensor& x, Dims dims, std::vector<int64_t> map);
// NumPy's rule: dims aligned at the end; sizes of 1 stretch. The tensor itself when equal already.
Tensor broadcast_to(const Tensor& x, const Dims& dims);
Dims broadcast_dims(std::string_view op, const Dims& a, const Dims& b);
Tensor transpose(const Tensor& x, std::vector<int64_t> permutation);
Tensor slice(const Tensor& x, Dims start, Dims limit, Dims stride = {});
// Elements [start, limit) of one dim.
Tensor slice_dim(const Tensor& x, int64_t dim, int64_t start, int64_t limit);
Tensor pad(const Tensor& x, double value, Dims low, Dims high, Dims interior = {});
Tensor concatenate(const Tensors& xs, int64_t dim);
// Along a new dim in front.
Tensor stack(const Tensors& xs);
Tensor reverse(const Tensor& x, std::vector<int64_t> dims);
Tensor dynamic_slice(const Tensor& x, const Tensors& indices, Dims dims);
Tensor dynamic_update_slice(const Tensor& x, const Tensor& update, const Tensors& indices);

}  // namespace espalier
