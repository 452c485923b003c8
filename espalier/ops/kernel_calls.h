// Calls of our own kernels (kernels/), which XLA for CPU has as custom calls. They have no gradient
// and no sharding of their own: on a mesh they stand in a shard_map, each device on its pieces.
#pragma once

#include "espalier/ops/custom_call.h"

namespace espalier {

inline constexpr const char* kAttentionKernel = "espalier_attention";
inline constexpr const char* kAttentionGradientKernel = "espalier_attention_gradient";
inline constexpr const char* kPackedAttentionKernel = "espalier_packed_attention";
inline constexpr const char* kPackedAttentionGradientKernel = "espalier_packed_attention_gradient";
// XLA's own names for cuDNN's (cudnn_calls.h).
inline constexpr const char* kCudnnAttention = "__cudnn$fmhaSoftmax";
inline constexpr const char* kCudnnAttentionGradient = "__cudnn$fmhaSoftmaxBackward";
inline constexpr const char* kLayerNormKernel = "espalier_layer_norm";
inline constexpr const char* kLayerNormGradientKernel = "espalier_layer_norm_gradient";
inline constexpr const char* kGeluKernel = "espalier_gelu";
inline constexpr const char* kGeluGradientKernel = "espalier_gelu_gradient";

struct AttentionKernelResult {
  Tensor o, log_sum;
};
// Causal attention with scores q k^T / sqrt(K). q and o are f32 (B, T, H, K), k and v (B, T, G, K)
// with G a divisor of H; head h of q reads head h / (H / G) of k and v. log_sum (B, H, T) is the
// logarithm of each row's sum of exponentials.
AttentionKernelResult attention_kernel(const Tensor& q, const Tensor& k, const Tensor& v);
// {d_q, d_k, d_v} of the cotangent d_o (the formulas of Dao 2023, section 2.3).
Tensors attention_gradient_kernel(const Tensor& q, const Tensor& k, const Tensor& v,
                                  const Tensor& o, const Tensor& log_sum, const Tensor& d_o);
// The same of q, k and v in one f32 array (B, T, 3, H, K), and its gradient.
AttentionKernelResult packed_attention_kernel(const Tensor& qkv);
Tensor packed_attention_gradient_kernel(const Tensor& qkv, const Tensor& o, const Tensor& log_sum,
                                        const Tensor& d_o);

struct LayerNormKernelResult {
  Tensor y, mean, rstd;  // mean and rstd without the last dim
};
// (x - mean) / sqrt(variance + epsilon) * scale + bias over the last dim, all f32; `bias` may be
// empty.
LayerNormKernelResult layer_norm_kernel(const Tensor& x, const Tensor& scale, const Tensor& bias,
                                        double epsilon);
// {dx, d_scale, d_bias}.
Tensors layer_norm_gradient_kernel(const Tensor& x, const Tensor& scale, const Tensor& mean,
                                   const Tensor& rstd, const Tensor& dy);

// x Phi(x), or its approximation by tanh, f32; and the gradient of x.
Tensor gelu_kernel(const Tensor& x, bool tanh);
Tensor gelu_gradient_kernel(const Tensor& x, bool tanh, const Tensor& dy);

// Floating-point operations of the matrix products in a call of one of attention's kernels, cuDNN's
// too: two products forward and five backward, of each query with the keys it sees. 0 for any other
// node.
double attention_kernel_flops(const Node& node);

}  // namespace espalier
