#include "espalier/nn/loss.h"

#include <numeric>

#include "espalier/nn/layers.h"
#include "espalier/ops/annotate.h"
#include "espalier/ops/control.h"
#include "espalier/ops/dot.h"
#include "espalier/ops/elementwise.h"
#include "espalier/ops/reduce.h"
#include "espalier/ops/shape.h"
#include "espalier/ops/source.h"

namespace espalier {

Tensor output_logits(const Tensor& x, const OutputLayer& layer) {
  const int64_t contract = layer.vocab_first ? 1 : 0;
  const Tensor y =
      dot_general(x, layer.weight, {}, {}, {x.rank() - 1}, {contract}, accumulate_type(x.dtype()));
  return layer.bias.empty() ? y : y + convert(layer.bias, y.dtype());
}

namespace {

struct LossPart {
  Tensor sum, count;
  Tensor dx, dw, db;  // gradient of the sum
  Tensor d;           // of the logits, of x's type
};

// See LossOptions::row_devices.
bool keeps_logit_gradient(const Tensor& x_BTD, const LossOptions& options) {
  const auto bytes = [](DType dtype, int64_t elements) {
    return static_cast<int64_t>(byte_size(dtype)) * elements;
  };
  return options.chunks > 1 &&
         bytes(x_BTD.dtype(), x_BTD.dim(0) * x_BTD.dim(1)) <
             options.row_devices * bytes(accumulate_type(x_BTD.dtype()), x_BTD.dim(2));
}

// The sum over all rows, of x (..., D) and d (..., V).
Tensor weight_gradient(const Tensor& x, const Tensor& d, bool vocab_first, DType type) {
  std::vector<int64_t> rows(static_cast<size_t>(x.rank() - 1));
  std::iota(rows.begin(), rows.end(), 0);
  return dot_general(vocab_first ? d : x, vocab_first ? x : d, {}, {}, rows, rows, type);
}

LossPart loss_part(const Tensor& x_BTD, const OutputLayer& layer, const Tensor& targets_BT,
                   const LossOptions& options, bool with_dw = true) {
  const Tensor logits = shard(output_logits(x_BTD, layer), {"batch", "seq", "vocab"});
  const Dims& wide = logits.dims();
  const Tensor highest = reduce_max(logits, {2});
  const Tensor e = exp(logits - along_last(highest, wide));
  const Tensor sum = reduce_sum(e, {2});
  const Tensor log_sum = log(sum) + highest;
  const TensorType index{targets_BT.dtype(), wide};
  const Tensor hit = compare(iota(index, 2), along_last(targets_BT, wide), Direction::kEq);
  const Tensor picked = reduce_sum(select(hit, logits, zeros_like(logits)), {2});
  Tensor loss = log_sum - picked;
  const Tensor probability = e / along_last(sum, wide);
  Tensor d_logits = select(hit, probability - 1.0, probability);
  if (options.z_loss > 0) {
    loss = loss + log_sum * log_sum * options.z_loss;
    d_logits = d_logits + probability * along_last(log_sum * (2 * options.z_loss), wide);
  }
  LossPart out;
  out.count = scalar(logits.dtype(), static_cast<double>(targets_BT.size()));
  if (options.ignore_id) {
    const Tensor ignored = full_int(targets_BT.type(), *options.ignore_id);
    const Tensor weight = convert(compare(targets_BT, ignored, Direction::kNe), logits.dtype());
    loss = loss * weight;
    d_logits = d_logits * along_last(weight, wide);
    out.count = reduce_sum(weight);
  }
  out.sum = reduce_sum(loss);
  out.d = convert(d_logits, x_BTD.dtype());
  out.dx = dot_general(out.d, layer.weight, {}, {}, {2}, {layer.vocab_first ? 0 : 1});
  if (with_dw) {
    out.dw = weight_gradient(x_BTD, out.d, layer.vocab_first, logits.dtype());
  }
  if (!layer.bias.empty()) out.db = reduce_sum(d_logits, {0, 1});
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

LossPart chunked(const Tensor& x, const OutputLayer& layer, const Tensor& targets,
                 const LossOptions& options) {
  const DType wide = accumulate_type(x.dtype());
  const bool biased = !layer.bias.empty(), keeps = keeps_logit_gradient(x, options);
  Tensors sums = {scalar(wide, 0), scalar(wide, 0)};
  if (biased) sums.push_back(zeros({wide, layer.bias.dims()}));
  if (!keeps) sums.push_back(zeros({wide, layer.weight.dims()}));
  const auto step = [&](const Tensors& carry, const Tensors& part) {
    const LossPart now = loss_part(part[0], layer, part[1], options, !keeps);
    ScanResult next{{carry[0] + now.sum, carry[1] + now.count}, {now.dx}};
    if (biased) next.carry.push_back(carry[2] + now.db);
    if (keeps) {
      next.outputs.push_back(now.d);
    } else {
      next.carry.push_back(carry.back() + now.dw);
    }
    return next;
  };
  // Every chunk is split over the devices as the sequence was: else whole chunks would be on one.
  const Tensors parts = {shard(split_sequence(x, options.chunks), {"", "batch", "seq", ""}),
                         shard(split_sequence(targets, options.chunks), {"", "batch", "seq"})};
  const ScanResult done = scan(step, sums, parts);
  LossPart total;
  total.sum = done.carry[0];
  total.count = done.carry[1];
  total.dx = join_sequence(done.outputs[0], x.dims());
  if (biased) total.db = done.carry[2];
  if (keeps) {
    // Chunk by chunk as they lie: to join them would copy.
    const Tensor d = shard(done.outputs[1], {"", "batch", "seq", "vocab"});
    total.dw = weight_gradient(parts[0], d, layer.vocab_first, layer.weight.dtype());
  } else {
    total.dw = done.carry.back();
  }
  return total;
}

}  // namespace

LossSum linear_cross_entropy(const Tensor& x, const OutputLayer& layer, const Tensor& targets,
                             const LossOptions& options) {
  if (x.rank() != 3 || targets.dims() != Dims{x.dim(0), x.dim(1)} || options.chunks < 1 ||
      x.dim(1) % options.chunks != 0) {
    fail("linear_cross_entropy",
         "needs x (B, T, D), targets (B, T) and chunks that divide T, got " + to_string(x.type()) +
             ", " + to_string(targets.type()) + " and " + std::to_string(options.chunks));
  }
  const LossPart total = options.chunks == 1 ? loss_part(x, layer, targets, options)
                                             : chunked(x, layer, targets, options);
  Tensors inputs = {x, layer.weight}, grads = {total.dx, total.dw};
  if (!layer.bias.empty()) {
    inputs.push_back(layer.bias);
    grads.push_back(total.db);
  }
  const auto backward = [](const Tensors& in, const Tensors&, const Tensors& saved,
                           const Tensors& ct) {
    Tensors out;
    for (size_t i = 0; i < saved.size(); ++i) {
      out.push_back(convert(saved[i] * convert(ct[0], saved[i].dtype()), in[i].dtype()));
    }
    return out;
  };
  return {custom_vjp("linear_cross_entropy", inputs, {total.sum}, grads, backward)[0],
          stop_gradient(total.count)};
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
