// Attention: each query's average of values, weighted by softmax over the keys it sees. B batch,
// T queries, S keys, H heads of queries, G heads of keys and values, K width of a head.
//
// Every function takes grouped queries (Ainslie et al. 2023): G divides H, and query head h reads
// key head h / (H / G); keys are not repeated. Scores, softmax and sums are float32 or wider;
// results and gradients have the operands' type. q, k and v are of one type. Wrong shapes throw
// Error.
#pragma once

#include <concepts>
#include <functional>
#include <string>

#include "espalier/nn/ctx.h"

namespace espalier {

// "dense": softmax(q k^T / sqrt(K)) v, each position seeing itself and those before it (S = T).
// Own gradient: it keeps q, k, v, the result and the log-sum-exp of each row, and computes
// probabilities again. Scores are arrays of B × H × T × T elements.
Tensor causal_attention(const Tensor& q_BTHK, const Tensor& k_BSGK, const Tensor& v_BSGK);

// Queries, and keys, in a block of flash_attention.
inline constexpr int64_t kFlashBlock = 128;

// "flash": the same values and gradients in blocks of at most `block` positions, without any array
// of T × T elements, forward or backward (Dao et al. 2022, with the backward formulas of Dao 2023).
// Softmax is taken online: a block of keys rescales what those before it have summed (Milakov and
// Gimelshein 2018). It keeps what causal_attention keeps. Blocks of keys that lie wholly after
// their queries are skipped. Where T is more than a block, it is cut into ceil(T / block) equal
// blocks, and padded at its end by less than one position a block where that does not divide it.
Tensor flash_attention(const Tensor& q_BTHK, const Tensor& k_BSGK, const Tensor& v_BSGK,
                       int64_t block = kFlashBlock);

// "fused": a kernel made for the platform, which keeps what causal_attention keeps: for float32 on
// CPUs one of our own (kernels/), with a task for each row of the batch and head of keys; for
// bfloat16 on NVIDIA cuDNN's, for heads of at most 128 (ops/cudnn_calls.h). Throws Error where
// there is none. On a mesh each device has its rows of the batch and its heads; where the heads'
// axes do not divide the heads of keys, or the sequence is sharded, operands are gathered and each
// device computes the same.
Tensor fused_attention(const Tensor& q_BTHK, const Tensor& k_BSGK, const Tensor& v_BSGK,
                       const Ctx& cx);
bool has_fused_attention(const Tensor& q_BTHK, const Ctx& cx);
// Whether each device has all that its part needs, with so many heads of keys.
bool fused_attention_moves_nothing(int64_t key_heads, const Ctx& cx);
// The same of q, k and v in one array, which is read, and its gradient written, where it lies: on
// CPUs.
Tensor packed_fused_attention(const Tensor& qkv_BTNHK, const Ctx& cx);
bool has_packed_fused_attention(const Tensor& qkv_BTNHK, const Ctx& cx);

// "ring": context parallelism (Liu et al. 2023). Where `seq` is split over a mesh axis, each device
// keeps its queries, and the pieces of keys and values go round from device to device (by
// collective_permute), so that none holds more than its own and one more. Softmax is taken online,
// over blocks of at most `kRingBlock` keys; the gradient goes round the same way, with the sums of
// the gradients of keys and values. It keeps what causal_attention keeps. A device's piece is
// consecutive positions; all compute scores with all pieces, those that causality leaves out too.
// Throws Error where the axis does not divide the sequence, or `seq` is split over several axes.
// Where `seq` is not split it is flash_attention. Where the heads' axes do not divide the heads of
// keys, each of their devices computes all heads.
Tensor ring_attention(const Tensor& q_BTHK, const Tensor& k_BSGK, const Tensor& v_BSGK,
                      const Ctx& cx);
// Whether `seq` is split over one mesh axis (one of a size above 1) that divides the sequence, and
// the heads' axes divide the heads of keys.
bool is_ring_possible(const Tensor& k_BSGK, const Ctx& cx);
// Keys at a time, at most: a piece is cut into as few equal blocks as that takes, the last one
// padded where they do not divide it.
inline constexpr int64_t kRingBlock = 512;

// For inference, over a cache of keys and values: query t, at place `position` + t (`position` an
// s32 scalar), sees the entries s <= position + t. Entries that none sees may hold any finite
// numbers.
Tensor cached_attention(const Tensor& q_BTHK, const Tensor& keys_BSGK, const Tensor& values_BSGK,
                        const Tensor& position);

// Causal attention as a model calls it while it is traced, with S = T: the result is (B, T, H, K),
// differentiable with respect to q, k and v.
struct Attention {
  using Separate = std::function<Tensor(const Tensor& q_BTHK, const Tensor& k_BSGK,
                                        const Tensor& v_BSGK, const Ctx& cx)>;
  using Packed = std::function<Tensor(const Tensor& qkv_BTNHK, const Ctx& cx)>;

  Separate separate;
  // For q, k and v as N = 3 slices of one array, as one projection makes them: empty, or empty
  // Tensors from it, where nothing is won over slices.
  Packed packed{};

  Attention() = default;
  template <class F>
  requires std::constructible_from<Separate, F> &&
      (!std::same_as<std::decay_t<F>, Attention>)Attention(F f)
      : separate(std::move(f)) {}
  Attention(Separate s, Packed p) : separate(std::move(s)), packed(std::move(p)) {}
  Tensor operator()(const Tensor& q, const Tensor& k, const Tensor& v, const Ctx& cx) const {
    return separate(q, k, v, cx);
  }
};

// Makes `attention` known to recipes by a name, also in place of one that was registered before.
// Throws Error where the name is built in. Thread-safe.
void register_attention(std::string name, Attention attention);
// "auto", "dense", "flash", "flash:N" (blocks of N positions), "fused", "ring" or a registered one.
// "auto" is "ring" where is_ring_possible, else "fused" where the platform has it
// and it moves nothing, else "flash" from 1024 positions on and "dense" below. Throws Error that
// lists the known names. Thread-safe.
Attention find_attention(const std::string& name);

}  // namespace espalier
