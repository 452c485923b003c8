#include "espalier/nn/kv_cache.h"

#include "espalier/nn/layers.h"
#include "espalier/ops/annotate.h"
#include "espalier/ops/elementwise.h"
#include "espalier/ops/shape.h"
#include "espalier/ops/source.h"

namespace espalier {
namespace {

// Puts (B, T, H, K) into a layer of (L, B, H, S, K) and returns that layer as (B, S, H, K).
Tensor extend(Tensor& cache, const Tensor& fresh, const KvCache& at) {
  const Tensor zero = full_int({DType::kS32, {}}, 0);
  const Tensor rows = transpose(convert(fresh, cache.dtype()), {0, 2, 1, 3});
  Dims piece = rows.dims();
  piece.insert(piece.begin(), 1);
  cache =
      dynamic_update_slice(cache, reshape(rows, piece), {at.layer, zero, zero, at.position, zero});
  Dims layer = cache.dims();
  layer[0] = 1;
  const Tensor own = dynamic_slice(cache, {at.layer, zero, zero, zero, zero}, layer);
  layer.erase(layer.begin());
  return transpose(shard(reshape(own, layer), {"batch", kKeyHeads, "", "head_dim"}), {0, 2, 1, 3});
}

}  // namespace

LogicalAxes kv_axes() { return {"", "batch", kKeyHeads, "", "head_dim"}; }

Tensor attend(const Attention& attention, const Tensor& q, const Tensor& k, const Tensor& v,
              const Ctx& cx) {
  KvCache* cache = cx.cache();
  if (cache == nullptr) {
    const auto named = [](const Tensor& x) { return checkpoint_name(x, "qkv"); };
    const Tensor q_in = named(q), k_in = named(k), v_in = named(v);
    return cx.is_attention_plain() ? causal_attention(q_in, k_in, v_in)
                                   : attention(q_in, k_in, v_in, cx);
  }
  const Tensor keys = extend(cache->keys, k, *cache);
  const Tensor values = extend(cache->values, v, *cache);
  return cached_attention(q, keys, values, cache->position);
}

Tensor attend(const Attention& attention, const Tensor& qkv, const Ctx& cx) {
  if (attention.packed && cx.cache() == nullptr && !cx.is_attention_plain()) {
    const Tensor whole = shard(qkv, {"batch", "seq", "", "heads", "head_dim"});
    const Tensor o = attention.packed(checkpoint_name(whole, "qkv"), cx);
    if (!o.empty()) return o;
  }
  Tensors parts = unstack(qkv, 2);
  for (Tensor& part : parts) part = shard(part, {"batch", "seq", "heads", "head_dim"});
  return attend(attention, parts[0], parts[1], parts[2], cx);
}

Tensor positions(int64_t length, const Ctx& cx) {
  const Tensor own = iota({DType::kS32, {length}}, 0);
  return cx.cache() == nullptr ? own : own + cx.cache()->position;
}

Tensor rows_at_positions(const Tensor& table, int64_t length, const Ctx& cx) {
  if (cx.cache() == nullptr) return slice_dim(table, 0, 0, length);
  return dynamic_slice(table, {cx.cache()->position, full_int({DType::kS32, {}}, 0)},
                       {length, table.dim(1)});
}

}  // namespace espalier
