// XLA's calls of cuDNN's attention, forward and backward, which its compiler for NVIDIA knows by
// name. The configuration is XLA's GpuBackendConfig as JSON
// (xla/service/gpu/backend_configs.proto), with the numbers that
// jax.nn.dot_product_attention(implementation="cudnn") gives. They have no gradient and no sharding
// of their own, as those of kernel_calls.h.
#pragma once

#include "espalier/ops/kernel_calls.h"

namespace espalier {

// Whether cuDNN has attention for such queries on every part from Ampere on: bf16 or f16, and a
// width of a head of at most 128, a multiple of 8.
bool has_cudnn_attention(const Tensor& q_BTHK);

// As attention_kernel and attention_gradient_kernel, of bf16 or f16; log_sum is f32.
AttentionKernelResult cudnn_attention(const Tensor& q, const Tensor& k, const Tensor& v);
Tensors cudnn_attention_gradient(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& o,
                                 const Tensor& log_sum, const Tensor& d_o);

}  // namespace espalier
