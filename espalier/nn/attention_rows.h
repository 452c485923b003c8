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

// Which keys the rows of a product of queries with keys see. Numbers are s32 scalars.
struct Sight {
  int64_t group = 1;  // rows of one query
  // Of the first query, where key 0 stands at place 0; may be negative; empty: 0.
  Tensor position{};
  Tensor keys{};  // that are no padding; empty: all
};

// Scores (B, G, X, S), scaled, with -inf where a key lies after the query, or is padding.
Tensor causal_scores(const Tensor& q_BXGK, const Tensor& k_BSGK, const Sight& sight);

// What comes back through causal_scores of these operands (Dao 2023, section 2.3): log_sum and
// delta (B, G, X) are each row's log-sum-exp over all keys it sees, and the sum of d_o o.
struct RowGradients {
  Tensor d_q_BGXK, d_k_BGKS, d_v_BGKS;  // of type `result`
};
RowGradients row_gradients(const Tensor& q_BXGK, const Tensor& k_BSGK, const Tensor& v_BSGK,
                           const Tensor& d_o_BXGK, const Tensor& log_sum, const Tensor& delta,
                           const Sight& sight, DType result);
// The sum of d_o o over K, (B, G, X), in float32 or wider.
Tensor row_deltas(const Tensor& o_BXGK, const Tensor& d_o_BXGK);

}  // namespace espalier
