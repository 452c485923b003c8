// Attention: each query's average of values, weighted by softmax over the keys it sees. B batch,
// T queries, S keys, H heads of queries, G heads of keys and values, K width of a head.
//
// Every function takes grouped queries (Ainslie et al. 2023): G divides H, and query head h reads
// key head h / (H / G); keys are not repeated. Scores, softmax and sums are float32 or wider;
// results and gradients have the operands' type. q, k and v are of one type. Wrong shapes throw
// Error.
#pragma once

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

// "fused": the platform's own kernel (kernels/), which keeps what causal_attention keeps. Now there
// is one for float32 on CPUs, with a task for each row of the batch and head of keys. Throws Error
// where there is none. On a mesh each device has its rows of the batch and its heads; where the
// heads' axes do not divide the heads of keys, or the sequence is sharded, operands are gathered
// and each device computes the same.
Tensor fused_attention(const Tensor& q_BTHK, const Tensor& k_BSGK, const Tensor& v_BSGK,
                       const Ctx& cx);
bool has_fused_attention(const Tensor& q_BTHK, const Ctx& cx);
// Whether each device has all that its part needs.
bool fused_attention_moves_nothing(const Tensor& k_BSGK, const Ctx& cx);

// For inference, over a cache of keys and values: query t, at place `position` + t (`position` an
// s32 scalar), sees the entries s <= position + t. Entries that none sees may hold any finite
// numbers.
Tensor cached_attention(const Tensor& q_BTHK, const Tensor& keys_BSGK, const Tensor& values_BSGK,
                        const Tensor& position);

// Causal attention as a model calls it while it is traced, with S = T: the result is (B, T, H, K),
// differentiable with respect to q, k and v.
using Attention = std::function<Tensor(const Tensor& q_BTHK, const Tensor& k_BSGK,
                                       const Tensor& v_BSGK, const Ctx& cx)>;

// Makes `attention` known to recipes by a name, also in place of one that was registered before.
// Throws Error where the name is built in. Thread-safe.
void register_attention(std::string name, Attention attention);
// "auto", "dense", "flash", "flash:N" (blocks of N positions), "fused" or a registered one. "auto"
// is "fused" where the platform has it and it moves nothing, otherwise "flash" from 1024 positions
// on and "dense" below. Throws Error that lists the known names. Thread-safe.
Attention find_attention(const std::string& name);

}  // namespace espalier
