#include "espalier/ops/kernel_calls.h"

#include <algorithm>
#include <initializer_list>
#include <string_view>

namespace espalier {

AttentionKernelResult attention_kernel(const Tensor& q, const Tensor& k, const Tensor& v) {
  const TensorType log_sum{DType::kF32, {q.dim(0), q.dim(2), q.dim(1)}};
  const Tensors out = custom_call(kAttentionKernel, {q, k, v}, {q.type(), log_sum});
  return {out[0], out[1]};
}

Tensors attention_gradient_kernel(const Tensor& q, const Tensor& k, const Tensor& v,
                                  const Tensor& o, const Tensor& log_sum, const Tensor& d_o) {
  return custom_call(kAttentionGradientKernel, {q, k, v, o, log_sum, d_o},
                     {q.type(), k.type(), v.type()});
}

AttentionKernelResult packed_attention_kernel(const Tensor& qkv) {
  const int64_t b = qkv.dim(0), t = qkv.dim(1), h = qkv.dim(3), k = qkv.dim(4);
  const TensorType o{DType::kF32, {b, t, h, k}}, log_sum{DType::kF32, {b, h, t}};
  const Tensors out = custom_call(kPackedAttentionKernel, {qkv}, {o, log_sum});
  return {out[0], out[1]};
}

Tensor packed_attention_gradient_kernel(const Tensor& qkv, const Tensor& o, const Tensor& log_sum,
                                        const Tensor& d_o) {
  return custom_call(kPackedAttentionGradientKernel, {qkv, o, log_sum, d_o}, {qkv.type()})[0];
}

double attention_kernel_flops(const Node& node) {
  const auto* call = node.as<CustomCall>();
  if (call == nullptr) return 0;
  const auto is = [&](std::initializer_list<std::string_view> names) {
    return std::find(names.begin(), names.end(), call->target) != names.end();
  };
  double products = 0;
  if (is({kAttentionKernel, kPackedAttentionKernel, kCudnnAttention})) products = 2;
  if (is({kAttentionGradientKernel, kPackedAttentionGradientKernel, kCudnnAttentionGradient})) {
    products = 5;
  }
  if (products == 0) return 0;
  const Tensor& q = node.operands[0];  // (B, T, H, K), or packed (B, T, 3, H, K)
  const auto dim = [&](int64_t d) { return static_cast<double>(q.dim(d)); };
  const double pairs = dim(0) * dim(-2) * dim(1) * (dim(1) + 1) / 2;
  return products * 2 * pairs * dim(-1);
}

LayerNormKernelResult layer_norm_kernel(const Tensor& x, const Tensor& scale, const Tensor& bias,
                                        double epsilon) {
  Dims rows = x.dims();
  rows.pop_back();
  const TensorType row_type{DType::kF32, rows};
  const bool biased = !bias.empty();
  const Tensors out = custom_call(
      kLayerNormKernel, {x, scale, biased ? bias : scale}, {x.type(), row_type, row_type},
      {{"epsilon", epsilon}, {"has_bias", static_cast<int64_t>(biased)}});
  return {out[0], out[1], out[2]};
}

Tensors layer_norm_gradient_kernel(const Tensor& x, const Tensor& scale, const Tensor& mean,
                                   const Tensor& rstd, const Tensor& dy) {
  return custom_call(kLayerNormGradientKernel, {x, scale, mean, rstd, dy},
                     {x.type(), scale.type(), scale.type()});
}

Tensor gelu_kernel(const Tensor& x, bool tanh) {
  return custom_call(kGeluKernel, {x}, {x.type()}, {{"tanh", static_cast<int64_t>(tanh)}})[0];
}

Tensor gelu_gradient_kernel(const Tensor& x, bool tanh, const Tensor& dy) {
  return custom_call(kGeluGradientKernel, {x, dy}, {x.type()},
                     {{"tanh", static_cast<int64_t>(tanh)}})[0];
}

}  // namespace espalier
