#include "espalier/ops/kernel_calls.h"

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
