// Rotary position embedding. Su et al. (2021), "RoFormer". B batch, T sequence, H heads, K width of
// a head (even).
#pragma once

#include <optional>
#include <vector>

#include "espalier/ir/tensor.h"

namespace espalier {

// Llama 3.1's `rope_scaling` of type "llama3", for contexts longer than the model was first trained
// on: waves longer than original_max_position_embeddings / low_freq_factor turn `factor` times
// slower, those shorter than original_max_position_embeddings / high_freq_factor as before, and
// between the two it goes over linearly in positions per wave. As Hugging Face's
// _compute_llama3_parameters.
struct Llama3Scaling {
  double factor = 8;
  double low_freq_factor = 1;
  double high_freq_factor = 4;
  int64_t original_max_position_embeddings = 8192;
};

enum class RopePairs {
  kHalves,       // elements i and i + K / 2 turn together: Hugging Face's rotate_half
  kInterleaved,  // elements 2i and 2i + 1: RoFormer's paper, Meta's own Llama
};

struct RopeOptions {
  double theta = 10000;
  RopePairs pairs = RopePairs::kHalves;
  std::optional<Llama3Scaling> scaling{};
};

// Radians that pair i turns by from one position to the next: theta^(-2i / K), scaled. K / 2 of
// them. Throws Error on a K that is odd, or on options out of range.
std::vector<double> rope_frequencies(int64_t width, const RopeOptions& options);

// Turns pair i of each head at position p by p times its frequency. `positions` are s32. Angles and
// products are float32 (float64 for float64); the result has x's type. Its own gradient turns back.
Tensor rope(const Tensor& x_BTHK, const Tensor& positions_T, const RopeOptions& options = {});

}  // namespace espalier
