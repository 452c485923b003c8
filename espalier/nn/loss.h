// The output layer and its cross-entropy in one. B batch, T sequence, D model width, V vocabulary.
#pragma once

#include <optional>

#include "espalier/ir/tensor.h"

namespace espalier {

struct LossOptions {
  // The sequence is taken in this many equal parts, so that no array of B × T × V elements exists.
  // Must divide T.
  int64_t chunks = 1;
  // Adds z_loss * logsumexp(logits)^2 at each position, which keeps logits from drifting: Chowdhery
  // et al., "PaLM" (2022), section 5.
  double z_loss = 0;
  // Positions with this target count for nothing (padding).
  std::optional<int64_t> ignore_id{};
  // Devices that share the B × T rows. With several chunks, what waits for the weight's gradient is
  // the smaller, on each, of: the sum over the chunks so far, D × V elements in float32 or wider;
  // the logits' gradient, a row of V elements of x's type for each of its rows, from which one
  // product makes it at the end, in the weight's type. The latter suits large models spread thinly.
  int64_t row_devices = 1;
};

// The mean is sum / count.
struct LossSum {
  Tensor sum;    // over positions, of the logits' type (float32 or wider)
  Tensor count;  // of positions that count, same type
};

struct OutputLayer {
  Tensor weight;  // (D, V), or (V, D) with vocab_first: a token embedding used again
  Tensor bias{};  // (V), or empty
  bool vocab_first = false;
};

// x w + bias, summed and returned in float32 or wider.
Tensor output_logits(const Tensor& x, const OutputLayer& layer);

// Sum of -log softmax(x w + bias)[target]. Targets are integers below V.
//
// The gradient (softmax minus one-hot) is computed along with the loss, by comparing with an iota
// and never by a scatter. `count` has no gradient.
LossSum linear_cross_entropy(const Tensor& x_BTD, const OutputLayer& layer,
                             const Tensor& targets_BT, const LossOptions& options = {});

// The least number of chunks that divides T and keeps a chunk's logits below 256 MiB on each of
// `devices` devices.
int64_t loss_chunks(int64_t batch, int64_t seq, int64_t vocab, int64_t devices);

}  // namespace espalier
