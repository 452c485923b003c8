// B batch, T positions, H heads of queries, G of keys, K width of a head.
#include "espalier/ops/cudnn_calls.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "espalier/ops/shape.h"

namespace espalier {
namespace {

using nlohmann::json;

// JSON of protobuf's 64-bit integers is text.
json numbers(const std::vector<int64_t>& values) {
  json out = json::array();
  for (const int64_t value : values) out.push_back(std::to_string(value));
  return out;
}

json product(int64_t left, int64_t right, const std::vector<int64_t>& left_batch,
             const std::vector<int64_t>& right_batch) {
  return {{"lhs_contracting_dimensions", numbers({left})},
          {"rhs_contracting_dimensions", numbers({right})},
          {"lhs_batch_dimensions", numbers(left_batch)},
          {"rhs_batch_dimensions", numbers(right_batch)}};
}

// What both calls tell of attention over (B, T, H, K): scores are (B, H, T, T).
json attention_config(const Tensor& q, const Tensor& k) {
  const int64_t b = q.dim(0), t = q.dim(1), h = q.dim(2), s = k.dim(1);
  return {{"algorithm",
           {{"algo_id", "0"},
            {"math_type", "TENSOR_OP_MATH"},
            {"tuning_knobs", {{"17", "1"}, {"24", "0"}}},
            {"is_cudnn_frontend", true},
            {"workspace_size", "0"}}},
          {"fmha_scale", 1.0 / std::sqrt(static_cast<double>(q.dim(3)))},
          {"intermediate_tensor_shape",
           {{"element_type", q.dtype() == DType::kBF16 ? "BF16" : "F16"},
            {"dimensions", numbers({b, h, t, s})},
            {"tuple_shapes", json::array()},
            {"layout", {{"minor_to_major", numbers({3, 2, 1, 0})}}},
            {"is_dynamic_dimension", {false, false, false, false}}}},
          {"is_flash_attention", true},
          {"mask_type", "CAUSAL"},
          {"dropout_rate", 0.0},
          {"seed", 0},
          {"sliding_window_length", 0},
          {"max_seg_per_batch", 1},
          {"is_paged_attention", false}};
}

std::string whole(json attention) {
  return json{{"operation_queue_id", "0"}, {"cudnn_fmha_backend_config", std::move(attention)}}
      .dump();
}

// Results are (B, H, T, K) by their type and (B, T, H, K) in memory.
const std::vector<int64_t> kHeadsOutside = {3, 1, 2, 0};

TensorType heads_outside(const Tensor& x) {
  return {x.dtype(), {x.dim(0), x.dim(2), x.dim(1), x.dim(3)}};
}
Tensor heads_inside(const Tensor& x) { return transpose(x, {0, 2, 1, 3}); }

const TensorType kWorkspace{DType::kU8, {0}};

}  // namespace

bool has_cudnn_attention(const Tensor& q) {
  const bool narrow = q.dtype() == DType::kBF16 || q.dtype() == DType::kF16;
  return narrow && q.dim(3) % 8 == 0 && q.dim(3) <= 128;
}

AttentionKernelResult cudnn_attention(const Tensor& q, const Tensor& k, const Tensor& v) {
  json config = attention_config(q, k);
  config["bmm1_dot_dimension_numbers"] = product(3, 3, {0, 2}, {0, 2});
  config["bmm2_dot_dimension_numbers"] = product(3, 1, {0, 1}, {0, 2});
  const TensorType log_sum{DType::kF32, {q.dim(0), q.dim(2), q.dim(1)}};
  const Tensors out =
      custom_call(kCudnnAttention, {q, k, v}, {heads_outside(q), log_sum, kWorkspace},
                  whole(std::move(config)), {kHeadsOutside, {2, 1, 0}, {0}});
  return {heads_inside(out[0]), out[1]};
}

Tensors cudnn_attention_gradient(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& o,
                                 const Tensor& log_sum, const Tensor& d_o) {
  json config = attention_config(q, k);
  config["bmm1_grad_gemm1_dot_dimension_numbers"] = product(2, 1, {0, 1}, {0, 2});
  config["bmm1_grad_gemm2_dot_dimension_numbers"] = product(3, 1, {0, 1}, {0, 2});
  config["bmm2_grad_gemm1_dot_dimension_numbers"] = product(2, 1, {0, 1}, {0, 2});
  config["bmm2_grad_gemm2_dot_dimension_numbers"] = product(3, 3, {0, 2}, {0, 2});
  const Tensors out =
      custom_call(kCudnnAttentionGradient, {q, k, v, log_sum, d_o, o},
                  {heads_outside(q), heads_outside(k), heads_outside(v), kWorkspace},
                  whole(std::move(config)), {kHeadsOutside, kHeadsOutside, kHeadsOutside, {0}});
  return {heads_inside(out[0]), heads_inside(out[1]), heads_inside(out[2])};
}

}  // namespace espalier
