// How well a model predicts a text of any length.
#pragma once

#include <span>

#include "espalier/train/step.h"

namespace espalier {

struct TextLoss {
  double nats = 0;     // summed over the predicted tokens
  int64_t tokens = 0;  // predicted: all but the first
};

// The text is cut into windows of `seq_len` tokens that do not overlap (1 to the model's max_len();
// a shorter text is one window); each window predicts every token behind one of its own, so that
// each token but the first is predicted once, from the tokens of its window alone. `batch_size`
// windows run at a time, more where the mesh does not divide it; the result depends on it in
// rounding only. No dropout. kInvalidArgument for fewer than two tokens or an id that the model
// lacks, naming its place. Throws Error for other lengths.
Result<TextLoss> text_loss(const std::shared_ptr<Runtime>& runtime, const ModelOnMesh& on,
                           std::span<DeviceArray* const> params, std::span<const int32_t> tokens,
                           int64_t seq_len, int64_t batch_size);

}  // namespace espalier
