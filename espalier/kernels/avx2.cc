// Compiled for processors with AVX2 and FMA.
#include "espalier/kernels/attention_heads.inc"
#include "espalier/kernels/rows.inc"

namespace espalier::kernels {
HeadKernels avx2_heads() { return {forward_head, backward_head}; }
RowKernels avx2_rows() { return {norm, norm_gradient, gelu, gelu_gradient}; }
}  // namespace espalier::kernels
