// Compiled for any processor.
#include "espalier/kernels/attention_heads.inc"
#include "espalier/kernels/rows.inc"

namespace espalier::kernels {
HeadKernels baseline_heads() { return {forward_head, backward_head}; }
RowKernels baseline_rows() { return {norm, norm_gradient, gelu, gelu_gradient}; }
}  // namespace espalier::kernels
