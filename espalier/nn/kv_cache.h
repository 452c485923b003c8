// The cache of keys and values: what attention keeps of earlier tokens in inference, so that each
// new token costs one position and not the whole sequence. B batch, T new positions, S positions in
// all, H key and value heads, K width of a head, L layers.
#pragma once

#include "espalier/nn/attention.h"

namespace espalier {

// One model call reads and extends it. `keys` and `values` are (L, B, H, S, K), as attention's
// products read them, whether layers are scanned or unrolled; `position` is how many positions were
// there before the call.
struct KvCache {
  Tensor keys, values;
  Tensor position;  // s32 scalar
  Tensor layer{};   // s32 scalar: whose turn it is; the stack of layers sets it
};

// The logical axis of heads of keys and values: split as other heads are, unless a rule names it.
inline constexpr const char* kKeyHeads = "kv_heads|heads";

// What a model needs of a cache.
struct KvShape {
  int64_t layers = 0, heads = 0, head_dim = 0;
  Dims dims(int64_t batch, int64_t length) const {
    return {layers, batch, heads, length, head_dim};
  }
};
// The logical axes of its arrays.
LogicalAxes kv_axes();

// What an attention layer calls. Without a cache: `attention` of q, k and v, which a RematPolicy
// can keep by the name "qkv", or causal_attention where `cx` says so. With one: k and v are put
// into it, and q sees all positions up to its own.
Tensor attend(const Attention& attention, const Tensor& q_BTHK, const Tensor& k_BTHK,
              const Tensor& v_BTHK, const Ctx& cx);
// The same of q, k and v as N = 3 slices of one array, which `attention` may take as it is.
Tensor attend(const Attention& attention, const Tensor& qkv_BTNHK, const Ctx& cx);

// Positions (s32, T) of a call's tokens: from 0, or from where the cache stands.
Tensor positions(int64_t length, const Ctx& cx);
// Rows of a table (S, D) at these positions: (T, D).
Tensor rows_at_positions(const Tensor& table, int64_t length, const Ctx& cx);

}  // namespace espalier
