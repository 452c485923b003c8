// Layers as functions. B batch, T sequence (queries), S sequence (keys), D model width, F any
// width, H heads, K width of a head, V vocabulary.
#pragma once

#include "espalier/ir/tensor.h"

namespace espalier {

Tensor relu(const Tensor& x);  // gradient 0 at 0

// (x - mean) / sqrt(variance + epsilon) * scale + bias over the last dim, with its own gradient:
// it keeps x, the mean and the reciprocal deviation. Ba, Kiros and Hinton (2016).
Tensor layer_norm(const Tensor& x_BTD, const Tensor& scale_D, const Tensor& bias_D, double epsilon);

// softmax(q k^T / sqrt(K)) v, each position seeing itself and those before it. Own gradient: it
// keeps q, k, v, the result and the log-sum-exp of each row, and computes probabilities again.
Tensor causal_attention(const Tensor& q_BTHK, const Tensor& k_BSHK, const Tensor& v_BSHK);

// Mean over all positions of -log softmax(x w + bias)[target]; `bias` may be empty. Targets are
// integers below V.
//
// The gradient (softmax minus one-hot) is computed along with the loss, by comparing with an iota
// and never by a scatter, and the sequence is taken in `chunks` equal parts, so that no array of
// B × T × V elements exists. `chunks` must divide T.
Tensor linear_cross_entropy(const Tensor& x_BTD, const Tensor& w_DV, const Tensor& bias_V,
                            const Tensor& targets_BT, int64_t chunks);

// The least number of chunks that divides T and keeps a chunk's logits below 256 MiB on each of
// `devices` devices.
int64_t loss_chunks(int64_t batch, int64_t seq, int64_t vocab, int64_t devices);

}  // namespace espalier
