// What the forms of attention share; internal to nn. B batch, T queries, S keys, H heads of
// queries, G heads of keys and values, K width of a head.
//
// The H / G query heads that read one key head become rows: queries (B, T, H, K) are (B, X, G, K)
// with X = T * (H / G), and row x is of query x / (H / G). So every product is one batched matmul
// over B and G, grouped or not.
#pragma once

#include "espalier/ir/tensor.h"

namespace espalier {

// Throws Error where q, k, v are not of one type with shapes (B, T, H, K), (B, S, G, K) twice, or
// G does not divide H.
void check_attention(const char* name, const Tensor& q_BTHK, const Tensor& k_BSGK,
                     const Tensor& v_BSGK);

Tensor heads_to_rows(const Tensor& q_BTHK, int64_t key_heads);
Tensor rows_to_heads(const Tensor& x_BXGK, int64_t query_heads);

// What a RematPolicy keeps attention's result by, and the log-sum-exp of its rows, which together
// spare the backward pass the forward computation. Both are marked as operands of custom_vjp.
inline constexpr const char* kAttentionOutput = "attn_out";

// 1 / sqrt(K).
double score_scale(const Tensor& q);

}  // namespace espalier
