// Compiled for processors with AVX-512.
#include "espalier/kernels/attention_heads.inc"
#include "espalier/kernels/rows.inc"

namespace espalier::kernels {
HeadKernels avx512_heads() { return {forward_head, backward_head}; }
RowKernels avx512_rows() { return {norm, norm_gradient, gelu, gelu_gradient}; }
}  // namespace espalier::kernels
