#include "espalier/nn/layers.h"

#include <cmath>
#include <limits>

#include "espalier/ops/annotate.h"
#include "espalier/ops/control.h"
#include "espalier/ops/dot.h"
#include "espalier/ops/elementwise.h"
#include "espalier/ops/reduce.h"
#include "espalier/ops/shape.h"
#include "espalier/ops/source.h"

namespace espalier {

Tensor relu(const Tensor& x) { return select(compare(x, 0.0, Direction::kGt), x, zeros_like(x)); }

namespace {

// A (B, T) value at each of the last dim's elements.
Tensor along_last(const Tensor& x, const Dims& dims) {
  Dims wide = x.dims();
  wide.push_back(1);
  return broadcast_to(reshape(x, wide), dims);
}

Tensors layer_norm_backward(const Tensors& in, const Tensors&, const Tensors& saved,
                            const Tensors& ct) {
  const Tensor &x = in[0], &scale = in[1], &dy = ct[0];
  const auto width = static_cast<double>(x.dim(-1));
  const Tensor mean_x = along_last(saved[0], x.dims()), rstd = along_last(saved[1], x.dims());
  const Tensor normal = (x - mean_x) * rstd;
  const Tensor dn = dy * scale;
  const int64_t last = x.rank() - 1;
  const Tensor sum1 = along_last(reduce_sum(dn, {last}), x.dims());
  const Tensor sum2 = along_last(reduce_sum(dn * normal, {last}), x.dims());
  std::vector<int64_t> rows;
  for (int64_t d = 0; d < last; ++d) rows.push_back(d);
  return {rstd * (dn - (sum1 + normal * sum2) / width), reduce_sum(dy * normal, rows),
          reduce_sum(dy, rows)};
}

}  // namespace

Tensor layer_norm(const Tensor& x, const Tensor& scale, const Tensor& bias, double epsilon) {
  const int64_t last = x.rank() - 1;
  const Tensor mean_x = mean(x, {last});
  const Tensor centered = x - along_last(mean_x, x.dims());
  const Tensor rstd = rsqrt(mean(centered * centered, {last}) + epsilon);
  const Tensor y = centered * along_last(rstd, x.dims()) * scale + bias;
  return custom_vjp("layer_norm", {x, scale, bias}, {y}, {mean_x, rstd}, layer_norm_backward)[0];
}

namespace {

// Scores (B, H, T, S), scaled, with -inf where a key lies after the query.
Tensor causal_scores(const Tensor& q, const Tensor& k) {
  const double scale = 1.0 / std::sqrt(static_cast<double>(q.dim(-1)));
  const Tensor scores = dot_general(q, k, {0, 2}, {0, 2}, {3}, {3}) * scale;
  const TensorType index{DType::kS32, scores.dims()};
  const Tensor seen = compare(iota(index, 2), iota(index, 3), Direction::kGe);
  return select(seen, scores, full(scores.type(), -std::numeric_limits<double>::infinity()));
}

Tensors attention_backward(const Tensors& in, const Tensors& out, const Tensors& saved,
                           const Tensors& ct) {
  const Tensor &q = in[0], &k = in[1], &v = in[2], &o = out[0], &d_o = ct[0];
  const double scale = 1.0 / std::sqrt(static_cast<double>(q.dim(-1)));
  const Tensor scores = causal_scores(q, k);
  const Tensor p = exp(scores - along_last(saved[0], scores.dims()));  // BHTS
  // (B, T, H) to (B, H, T)
  const Tensor delta = transpose(reduce_sum(d_o * o, {3}), {0, 2, 1});
  const Tensor d_p = dot_general(d_o, v, {0, 2}, {0, 2}, {3}, {3});
  const Tensor d_s = p * (d_p - along_last(delta, p.dims())) * scale;
  const std::vector<int64_t> to_BTHK = {0, 2, 1, 3};
  const Tensor d_q = dot_general(d_s, k, {0, 1}, {0, 2}, {3}, {1});
  const Tensor d_k = dot_general(d_s, q, {0, 1}, {0, 2}, {2}, {1});
  const Tensor d_v = dot_general(p, d_o, {0, 1}, {0, 2}, {2}, {1});
  return {transpose(d_q, to_BTHK), transpose(d_k, to_BTHK), transpose(d_v, to_BTHK)};
}

}  // namespace

Tensor causal_attention(const Tensor& q, const Tensor& k, const Tensor& v) {
  if (q.rank() != 4 || q.dims() != k.dims() || k.dims() != v.dims()) {
    fail("causal_attention", "needs q, k and v of one shape (B, T, H, K), got " +
                                 to_string(q.type()) + ", " + to_string(k.type()) + " and " +
                                 to_string(v.type()));
  }
  const Tensor scores = causal_scores(q, k);
  const Tensor highest = reduce_max(scores, {3});
  const Tensor e = exp(scores - along_last(highest, scores.dims()));
  const Tensor sum = reduce_sum(e, {3});
  const Tensor o_BHTK = dot_general(e / along_last(sum, e.dims()), v, {0, 1}, {0, 2}, {3}, {1});
  const Tensor o = transpose(o_BHTK, {0, 2, 1, 3});
  return custom_vjp("causal_attention", {q, k, v}, {o}, {highest + log(sum)},
                    attention_backward)[0];
}

namespace {

struct LossPart {
  Tensor loss;        // sum over positions
  Tensor dx, dw, db;  // gradient of that sum
};

LossPart loss_part(const Tensor& x_BTD, const Tensor& w_DV, const Tensor& bias_V,
                   const Tensor& targets_BT) {
  Tensor logits = matmul(x_BTD, w_DV);
  if (!bias_V.empty()) logits = logits + bias_V;
  logits = shard(logits, {"batch", "seq", "vocab"});
  const Dims& wide = logits.dims();
  const Tensor highest = reduce_max(logits, {2});
  const Tensor e = exp(logits - along_last(highest, wide));
  const Tensor sum = reduce_sum(e, {2});
  const TensorType index{targets_BT.dtype(), wide};
  const Tensor hit = compare(iota(index, 2), along_last(targets_BT, wide), Direction::kEq);
  const Tensor picked = reduce_sum(select(hit, logits, zeros_like(logits)), {2});
  LossPart out;
  out.loss = reduce_sum(log(sum) + highest - picked);
  const Tensor probability = e / along_last(sum, wide);
  const Tensor d_logits = select(hit, probability - 1.0, probability);
  out.dx = matmul_transposed(d_logits, w_DV);
  out.dw = dot_general(x_BTD, d_logits, {}, {}, {0, 1}, {0, 1});
  if (!bias_V.empty()) out.db = reduce_sum(d_logits, {0, 1});
  return out;
}

// (B, T, ...) as (chunks, B, T / chunks, ...).
Tensor split_sequence(const Tensor& x, int64_t chunks) {
  Dims dims = x.dims();
  dims[1] /= chunks;
  dims.insert(dims.begin() + 1, chunks);
  std::vector<int64_t> order(dims.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(i);
  std::swap(order[0], order[1]);
  return transpose(reshape(x, dims), order);
}

Tensor join_sequence(const Tensor& x, const Dims& dims) {
  std::vector<int64_t> order(static_cast<size_t>(x.rank()));
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(i);
  std::swap(order[0], order[1]);
  return reshape(transpose(x, order), dims);
}

}  // namespace

Tensor linear_cross_entropy(const Tensor& x, const Tensor& w, const Tensor& bias,
                            const Tensor& targets, int64_t chunks) {
  if (x.rank() != 3 || targets.dims() != Dims{x.dim(0), x.dim(1)} || chunks < 1 ||
      x.dim(1) % chunks != 0) {
    fail("linear_cross_entropy",
         "needs x (B, T, D), targets (B, T) and chunks that divide T, got " + to_string(x.type()) +
             ", " + to_string(targets.type()) + " and " + std::to_string(chunks));
  }
  const double count = static_cast<double>(targets.size());
  LossPart total;
  if (chunks == 1) {
    total = loss_part(x, w, bias, targets);
  } else {
    Tensors sums = {scalar(x.dtype(), 0), zeros_like(w)};
    if (!bias.empty()) sums.push_back(zeros_like(bias));
    const auto step = [&](const Tensors& carry, const Tensors& part) {
      const LossPart now = loss_part(part[0], w, bias, part[1]);
      ScanResult next{{carry[0] + now.loss, carry[1] + now.dw}, {now.dx}};
      if (!bias.empty()) next.carry.push_back(carry[2] + now.db);
      return next;
    };
    const ScanResult done =
        scan(step, sums, {split_sequence(x, chunks), split_sequence(targets, chunks)});
    total.loss = done.carry[0];
    total.dw = done.carry[1];
    if (!bias.empty()) total.db = done.carry[2];
    total.dx = join_sequence(done.outputs[0], x.dims());
  }
  Tensors inputs = {x, w}, grads = {total.dx, total.dw};
  if (!bias.empty()) {
    inputs.push_back(bias);
    grads.push_back(total.db);
  }
  return custom_vjp(
      "linear_cross_entropy", inputs, {total.loss / count}, grads,
      [count](const Tensors&, const Tensors&, const Tensors& saved, const Tensors& ct) {
        const Tensor scale = ct[0] / count;
        Tensors out;
        for (const Tensor& g : saved) out.push_back(g * scale);
        return out;
      })[0];
}

int64_t loss_chunks(int64_t batch, int64_t seq, int64_t vocab, int64_t devices) {
  constexpr double kLimit = 256.0 * (1 << 20);
  const double bytes = 4.0 * static_cast<double>(batch) * static_cast<double>(seq) *
                       static_cast<double>(vocab) / static_cast<double>(devices);
  for (int64_t chunks = 1; chunks < seq; ++chunks) {
    if (seq % chunks == 0 && bytes / static_cast<double>(chunks) <= kLimit) return chunks;
  }
  return seq;
}

}  // namespace espalier
