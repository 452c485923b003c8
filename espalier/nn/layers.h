// Layers as functions, and attention with them. B batch, T sequence, D model width.
#pragma once

#include "espalier/ir/tensor.h"
#include "espalier/nn/attention.h"

namespace espalier {

// What sums are kept in for elements of a type: float32, or float64 for float64.
DType accumulate_type(DType dtype);

// A value (...) at each element of a last dim added to it, so that it has the shape `dims`.
Tensor along_last(const Tensor& x, const Dims& dims);

// The slices of dim `dim`, without it. The gradient is one concatenation, where that of slices
// would be a sum of padded arrays.
Tensors unstack(const Tensor& x, int64_t dim);
Tensor relu(const Tensor& x);  // gradient 0 at 0

// Gaussian error linear unit, x Phi(x), and its approximation by tanh (Hendrycks and Gimpel 2016).
// Own gradients: they keep x alone. Computed in float32 or wider.
// With a context, by a kernel where there is one.
Tensor gelu(const Tensor& x);
Tensor gelu_tanh(const Tensor& x);
Tensor gelu(const Tensor& x, const Ctx& cx);
Tensor gelu_tanh(const Tensor& x, const Ctx& cx);

// (x - mean) / sqrt(variance + epsilon) * scale + bias over the last dim, with its own gradient:
// it keeps x, the mean and the reciprocal deviation. `bias` may be empty. Computed in float32 or
// wider; the result has x's type. Ba, Kiros and Hinton (2016).
// With a context, by a kernel where there is one.
Tensor layer_norm(const Tensor& x_BTD, const Tensor& scale_D, const Tensor& bias_D, double epsilon);
Tensor layer_norm(const Tensor& x_BTD, const Tensor& scale_D, const Tensor& bias_D, double epsilon,
                  const Ctx& cx);

// x / sqrt(mean of x^2 + epsilon) * scale over the last dim, with its own gradient: it keeps x and
// the reciprocal root. Computed in float32 or wider; the result has x's type. Zhang and Sennrich
// (2019).
Tensor rms_norm(const Tensor& x_BTD, const Tensor& scale_D, double epsilon);

// silu(gate) * up with silu(x) = x / (1 + exp(-x)): the gated linear unit of Shazeer (2020). Own
// gradient: it keeps the operands alone. Computed in float32 or wider; the result has their type.
Tensor swiglu(const Tensor& gate, const Tensor& up);

}  // namespace espalier
