#include "espalier/nn/attention.h"
#include "espalier/nn/attention_rows.h"
#include "espalier/ops/annotate.h"
#include "espalier/ops/kernel_calls.h"
#include "espalier/ops/shard_map.h"

namespace espalier {
namespace {

// How a call is split over the mesh: arrays (B, T, heads, K), and log-sums (B, heads, T).
struct Split {
  Mesh mesh;
  PartitionSpec array, log_sum;
};

// Heads stay whole where their axes do not divide the key heads.
Split split_of(const Tensor& k, const Placement& placement) {
  PartitionSpec spec = placement.rules.resolve({"batch", "", "heads", ""}, placement.mesh);
  if (k.dim(2) % placement.mesh.size(spec[2]) != 0) spec[2].clear();
  return {placement.mesh, spec, {spec[0], spec[2], {}}};
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
  return cx.placement().platform == "cpu" && q.dtype() == DType::kF32;
}

bool fused_attention_moves_nothing(const Tensor& k, const Ctx& cx) {
  const Placement& at = cx.placement();
  const PartitionSpec spec = at.rules.resolve({"batch", "seq", "heads", ""}, at.mesh);
  return at.mesh.size(spec[1]) == 1 && k.dim(2) % at.mesh.size(spec[2]) == 0;
}

Tensor fused_attention(const Tensor& q, const Tensor& k, const Tensor& v, const Ctx& cx) {
  check_attention("fused_attention", q, k, v);
  if (q.dim(1) != k.dim(1)) {
    fail("fused_attention", "needs as many keys as queries, got " + to_string(q.type()) + " and " +
                                to_string(k.type()));
  }
  if (!has_fused_attention(q, cx)) {
    const std::string& platform = cx.placement().platform;
    throw Error("attention \"fused\": there is no kernel for " + to_string(q.type()) + " on " +
                (platform.empty() ? "an unknown platform" : platform) +
                "; choose \"auto\", \"flash\" or \"dense\"");
  }
  const Split split = split_of(k, cx.placement());
  const PartitionSpec &array = split.array, &sums = split.log_sum;
  const auto forward = [](const Tensors& in) {
    const AttentionKernelResult out = attention_kernel(in[0], in[1], in[2]);
    return Tensors{out.o, out.log_sum};
  };
  // The rule below is the gradient: none is wanted of the manual region.
  const Tensors operands = {stop_gradient(q), stop_gradient(k), stop_gradient(v)};
  const Tensors done =
      on_each_device(split, {array, array, array}, {array, sums}, forward, operands);
  const auto rule = [split](const Tensors& in, const Tensors& out, const Tensors& saved,
                            const Tensors& ct) {
    const PartitionSpec &array = split.array, &sums = split.log_sum;
    const auto backward = [](const Tensors& x) {
      return attention_gradient_kernel(x[0], x[1], x[2], x[3], x[4], x[5]);
    };
    return on_each_device(split, {array, array, array, array, sums, array}, {array, array, array},
                          backward, {in[0], in[1], in[2], out[0], saved[0], ct[0]});
  };
  return custom_vjp("fused_attention", {q, k, v}, {checkpoint_name(done[0], kAttentionOutput)},
                    {checkpoint_name(done[1], kAttentionOutput)}, rule)[0];
}

}  // namespace espalier
