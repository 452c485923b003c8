// Layer norm and GELU over rows: the inner part of the kernels, compiled once for each kind of
// processor.
#pragma once

#include <cstddef>
#include <cstdint>

namespace espalier::kernels {

// Rows of `width` floats; the functions take rows [first, last).
struct NormArrays {
  int64_t width;
  float epsilon;
  const float *x, *scale, *bias;  // bias: null where there is none
  float *y, *mean, *rstd;         // mean, rstd: one per row
};
struct NormGradientArrays {
  int64_t width;
  const float *x, *scale, *mean, *rstd, *dy;
  float* dx;
};
struct GeluArrays {
  const float *x, *dy;
  float* out;  // the activation, or the gradient of x
};

struct RowKernels {
  void (*norm)(const NormArrays& arrays, int64_t first, int64_t last);
  // Adds these rows' part to the gradients of scale and bias.
  void (*norm_gradient)(const NormGradientArrays& arrays, int64_t first, int64_t last,
                        float* d_scale, float* d_bias);
  // Elements [first, last). x Phi(x), or with `tanh` its approximation (Hendrycks and Gimpel 2016).
  void (*gelu)(const GeluArrays& arrays, bool tanh, int64_t first, int64_t last);
  void (*gelu_gradient)(const GeluArrays& arrays, bool tanh, int64_t first, int64_t last);
};
RowKernels avx512_rows();
RowKernels avx2_rows();
RowKernels baseline_rows();

}  // namespace espalier::kernels
