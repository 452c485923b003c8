#include "espalier/generate/draw.h"

#include <limits>

#include "espalier/ops/control.h"
#include "espalier/ops/elementwise.h"
#include "espalier/ops/reduce.h"
#include "espalier/ops/shape.h"
#include "espalier/ops/source.h"
#include "espalier/random/random.h"

namespace espalier {
namespace {

// A column (B) as wide as (B, N).
Tensor along_rows(const Tensor& column, const Dims& dims) {
  return broadcast_in_dim(column, dims, {0});
}

// Moves each row (B, N) `by` places to the right; zeros come in.
Tensor moved_right(const Tensor& x, int64_t by) { return pad(x, 0.0, {0, by}, {0, -by}); }

// Sum of the elements before each one.
Tensor sum_before(const Tensor& x) {
  Tensor sum = moved_right(x, 1);
  for (int64_t by = 1; by < x.dim(1); by *= 2) sum = sum + moved_right(sum, by);
  return sum;
}

// Logits in falling order without those outside the nucleus.
Tensor nucleus(const Tensor& sorted, double top_p) {
  const Tensor e = exp(sorted - along_rows(reduce_max(sorted, {1}), sorted.dims()));
  const Tensor p = e / along_rows(reduce_sum(e, {1}), e.dims());
  const Tensor kept = compare(sum_before(p), top_p, Direction::kLt);
  return select(kept, sorted, full(sorted.type(), -std::numeric_limits<double>::infinity()));
}

Tensor noise(const Tensor& keys_B2, const Tensor& count, int64_t width) {
  const auto body = [&](const Tensors&, const Tensors& key) -> ScanResult {
    return {{}, {random::gumbel(random::fold_in(key[0], count), {width})}};
  };
  return scan(body, {}, {keys_B2}).outputs[0];
}

}  // namespace

Tensor draw(const Tensor& logits, const DrawOptions& options, const Tensor& temperature,
            const Tensor& keys, const Tensor& count) {
  const bool cut = options.top_p < 1;
  const int64_t width = options.top_k > 0 ? options.top_k : logits.dim(1);
  const bool sorted = options.top_k > 0 || cut;
  const TopKResult best = sorted ? top_k(logits, width) : TopKResult{logits, Tensor()};
  // Dividing by 1 at temperature 0 keeps what is not chosen finite.
  const Tensor greedy = compare(temperature, 0.0, Direction::kEq);
  Tensor scaled = best.values / select(greedy, ones_like(temperature), temperature);
  if (cut) scaled = nucleus(scaled, options.top_p);
  const Tensor drawn = argmax(scaled + noise(keys, count, width), 1);
  const Tensor chosen = select(greedy, argmax(best.values, 1), drawn);
  if (!sorted) return chosen;
  const Tensor is_chosen = compare(iota(best.indices.type(), 1),
                                   along_rows(chosen, best.indices.dims()), Direction::kEq);
  return reduce_sum(select(is_chosen, best.indices, zeros_like(best.indices)), {1});
}

}  // namespace espalier
