#include "espalier/nn/rope.h"

#include <cmath>
#include <numbers>

#include "espalier/nn/layers.h"
#include "espalier/ops/annotate.h"
#include "espalier/ops/elementwise.h"
#include "espalier/ops/shape.h"
#include "espalier/ops/source.h"

namespace espalier {
namespace {

double scaled(double frequency, const Llama3Scaling& s) {
  const double wave = 2 * std::numbers::pi / frequency;
  const double waves = static_cast<double>(s.original_max_position_embeddings) / wave;
  if (waves < s.low_freq_factor) return frequency / s.factor;
  if (waves > s.high_freq_factor) return frequency;
  const double fast = (waves - s.low_freq_factor) / (s.high_freq_factor - s.low_freq_factor);
  return (1 - fast) * frequency / s.factor + fast * frequency;
}

// x (B, T, H, K) turned by positions (T) times frequencies (K / 2), or back.
Tensor turned(const Tensor& x, const Tensor& positions, const std::vector<double>& frequencies,
              RopePairs pairs, bool back) {
  const DType wide = accumulate_type(x.dtype());
  const int64_t half = x.dim(3) / 2;
  const Tensor frequency = constant(HostArray::from<double>({half}, frequencies).converted(wide));
  const Tensor angle =
      along_last(convert(positions, wide), {positions.dim(0), half}) * frequency;  // (T, K / 2)

  // The two elements of a pair lie along `dim`.
  const bool halves = pairs == RopePairs::kHalves;
  const int64_t dim = halves ? 3 : 4;
  Dims split = {x.dim(0), x.dim(1), x.dim(2), half, half}, one = split;
  split[static_cast<size_t>(dim)] = 2;
  one[static_cast<size_t>(dim)] = 1;
  const std::vector<int64_t> map = {1, halves ? 4 : 3};
  const Tensor c = broadcast_in_dim(cos(angle), one, map);
  const Tensor s = broadcast_in_dim(back ? -sin(angle) : sin(angle), one, map);
  const Tensor both = convert(reshape(x, split), wide);
  const Tensor a = slice_dim(both, dim, 0, 1), b = slice_dim(both, dim, 1, 2);
  return convert(reshape(concatenate({a * c - b * s, a * s + b * c}, dim), x.dims()), x.dtype());
}

}  // namespace

std::vector<double> rope_frequencies(int64_t width, const RopeOptions& options) {
  if (width < 2 || width % 2 != 0) {
    fail("rope", "needs heads of an even width, got " + std::to_string(width));
  }
  if (!(options.theta > 0)) {
    fail("rope", "needs theta above 0, got " + std::to_string(options.theta));
  }
  if (const auto& s = options.scaling) {
    if (!(s->factor > 0) || !(s->low_freq_factor > 0) ||
        !(s->high_freq_factor > s->low_freq_factor) || s->original_max_position_embeddings < 1) {
      fail("rope",
           "needs scaling with factor > 0, 0 < low_freq_factor < high_freq_factor and "
           "original_max_position_embeddings >= 1, got " +
               std::to_string(s->factor) + ", " + std::to_string(s->low_freq_factor) + ", " +
               std::to_string(s->high_freq_factor) + " and " +
               std::to_string(s->original_max_position_embeddings));
    }
  }
  std::vector<double> out;
  for (int64_t i = 0; i < width / 2; ++i) {
    const double exponent = 2.0 * static_cast<double>(i) / static_cast<double>(width);
    const double frequency = std::pow(options.theta, -exponent);
    out.push_back(options.scaling ? scaled(frequency, *options.scaling) : frequency);
  }
  return out;
}

Tensor rope(const Tensor& x, const Tensor& positions, const RopeOptions& options) {
  if (x.rank() != 4 || !is_floating(x.dtype()) ||
      positions.type() != TensorType{DType::kS32, {x.dim(1)}}) {
    fail("rope", "needs floating-point x (B, T, H, K) and i32 positions (T), got " +
                     to_string(x.type()) + " and " + to_string(positions.type()));
  }
  const auto frequencies = rope_frequencies(x.dim(3), options);
  const RopePairs pairs = options.pairs;
  const auto backward = [frequencies, pairs](const Tensors&, const Tensors&, const Tensors& saved,
                                             const Tensors& ct) {
    return Tensors{turned(ct[0], saved[0], frequencies, pairs, true)};
  };
  const Tensor y = turned(x, positions, frequencies, pairs, false);
  return custom_vjp("rope", {x}, {y}, {positions}, backward)[0];
}

}  // namespace espalier
