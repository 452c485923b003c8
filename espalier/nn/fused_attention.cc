#include "espalier/nn/attention.h"
#include "espalier/nn/attention_rows.h"
#include "espalier/ops/annotate.h"
#include "espalier/ops/cudnn_calls.h"
#include "espalier/ops/kernel_calls.h"
#include "espalier/ops/shard_map.h"

namespace espalier {
namespace {

// How a call is split over the mesh: arrays (B, T, heads, K), log-sums (B, heads, T) and packed
// arrays (B, T, 3, heads, K).
struct Split {
  Mesh mesh;
  PartitionSpec array, log_sum, packed;
};

// Heads stay whole where their axes do not divide the key heads.
Split split_of(int64_t key_heads, const Placement& placement) {
  PartitionSpec spec = placement.rules.resolve({"batch", "", "heads", ""}, placement.mesh);
  if (key_heads % placement.mesh.size(spec[2]) != 0) spec[2].clear();
  return {placement.mesh, spec, {spec[0], spec[2], {}}, {spec[0], {}, {}, spec[2], {}}};
}

[[noreturn]] void refuse(const Tensor& q, const Ctx& cx) {
  const std::string& platform = cx.placement().platform;
  throw Error("attention \"fused\": there is no kernel for " + to_string(q.type()) + " on " +
              (platform.empty() ? "an unknown platform" : platform) +
              "; choose \"auto\", \"flash\" or \"dense\"");
}

Tensors on_each_device(const Split& split, const std::vector<PartitionSpec>& in,
                       const std::vector<PartitionSpec>& out,
                       const std::function<Tensors(const Tensors&)>& body,
                       const Tensors& operands) {
  if (split.mesh.axes().empty()) return body(operands);
  const auto call = [&](const Tensors& pieces, const Manual&) { return body(pieces); };
  return shard_map(split.mesh, {}, in, out, call, operands);
}

}  // namespace

bool has_fused_attention(const Tensor& q, const Ctx& cx) {
  const std::string& platform = cx.placement().platform;
  return platform == "cpu" ? q.dtype() == DType::kF32
                           : platform == "cuda" && has_cudnn_attention(q);
}

bool has_packed_fused_attention(const Tensor& qkv, const Ctx& cx) {
  return cx.placement().platform == "cpu" && qkv.dtype() == DType::kF32;
}

bool fused_attention_moves_nothing(int64_t key_heads, const Ctx& cx) {
  const Placement& at = cx.placement();
  const PartitionSpec spec = at.rules.resolve({"batch", "seq", "heads", ""}, at.mesh);
  return at.mesh.size(spec[1]) == 1 && key_heads % at.mesh.size(spec[2]) == 0;
}

Tensor fused_attention(const Tensor& q, const Tensor& k, const Tensor& v, const Ctx& cx) {
  check_attention("fused_attention", q, k, v);
  if (q.dim(1) != k.dim(1)) {
    fail("fused_attention", "needs as many keys as queries, got " + to_string(q.type()) + " and " +
                                to_string(k.type()));
  }
  if (!has_fused_attention(q, cx)) refuse(q, cx);
  const bool cudnn = cx.placement().platform == "cuda";
  const Split split = split_of(k.dim(2), cx.placement());
  const PartitionSpec &array = split.array, &sums = split.log_sum;
  const auto forward = [cudnn](const Tensors& in) {
    const AttentionKernelResult out =
        (cudnn ? cudnn_attention : attention_kernel)(in[0], in[1], in[2]);
    return Tensors{out.o, out.log_sum};
  };
  // The rule below is the gradient: none is wanted of the manual region.
  const Tensors operands = {stop_gradient(q), stop_gradient(k), stop_gradient(v)};
  const Tensors done =
      on_each_device(split, {array, array, array}, {array, sums}, forward, operands);
  const auto rule = [split, cudnn](const Tensors& in, const Tensors& out, const Tensors& saved,
                                   const Tensors& ct) {
    const PartitionSpec &array = split.array, &sums = split.log_sum;
    const auto backward = [cudnn](const Tensors& x) {
      return (cudnn ? cudnn_attention_gradient : attention_gradient_kernel)(x[0], x[1], x[2], x[3],
                                                                            x[4], x[5]);
    };
    return on_each_device(split, {array, array, array, array, sums, array}, {array, array, array},
                          backward, {in[0], in[1], in[2], out[0], saved[0], ct[0]});
  };
  return custom_vjp("fused_attention", {q, k, v}, {checkpoint_name(done[0], kAttentionOutput)},
                    {checkpoint_name(done[1], kAttentionOutput)}, rule)[0];
}

Tensor packed_fused_attention(const Tensor& qkv, const Ctx& cx) {
  if (qkv.rank() != 5 || qkv.dim(2) != 3) {
    fail("packed_fused_attention", "needs (B, T, 3, H, K), got " + to_string(qkv.type()));
  }
  if (!has_packed_fused_attention(qkv, cx)) refuse(qkv, cx);
  const Split split = split_of(qkv.dim(3), cx.placement());
  const auto forward = [](const Tensors& in) {
    const AttentionKernelResult out = packed_attention_kernel(in[0]);
    return Tensors{out.o, out.log_sum};
  };
  const Tensors done = on_each_device(split, {split.packed}, {split.array, split.log_sum}, forward,
                                      {stop_gradient(qkv)});
  const auto rule = [split](const Tensors& in, const Tensors& out, const Tensors& saved,
                            const Tensors& ct) {
    const auto backward = [](const Tensors& x) {
      return Tensors{packed_attention_gradient_kernel(x[0], x[1], x[2], x[3])};
    };
    return on_each_device(split, {split.packed, split.array, split.log_sum, split.array},
                          {split.packed}, backward, {in[0], out[0], saved[0], ct[0]});
  };
  return custom_vjp("packed_fused_attention", {qkv}, {checkpoint_name(done[0], kAttentionOutput)},
                    {checkpoint_name(done[1], kAttentionOutput)}, rule)[0];
}

}  // namespace espalier
