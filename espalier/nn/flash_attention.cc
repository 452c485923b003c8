// B batch, T queries and keys, X rows (see attention_rows.h), G key heads, K width of a head;
// N blocks, b positions in a block of keys, r rows in a block of queries.
#include <limits>

#include "espalier/nn/attention.h"
#include "espalier/nn/attention_rows.h"
#include "espalier/nn/layers.h"
#include "espalier/ops/annotate.h"
#include "espalier/ops/control.h"
#include "espalier/ops/dot.h"
#include "espalier/ops/elementwise.h"
#include "espalier/ops/reduce.h"
#include "espalier/ops/shape.h"
#include "espalier/ops/source.h"

namespace espalier {
namespace {

struct Blocks {
  int64_t count = 0, positions = 0, group = 0;
  double scale = 0;
};

// (B, X, G, ...) as (count, B, G, per, ...), padded with zeros.
Tensor to_blocks(const Tensor& x, int64_t count, int64_t per) {
  Dims low(x.dims().size(), 0), high = low;
  high[1] = count * per - x.dim(1);
  const Tensor whole = high[1] == 0 ? x : pad(x, 0, low, high);
  Dims dims = x.dims();
  dims[1] = count;
  dims.insert(dims.begin() + 2, per);
  std::vector<int64_t> order = {1, 0, 3, 2};
  if (x.rank() == 4) order.push_back(4);
  return transpose(reshape(whole, dims), order);
}

// (count, B, G, per, K) as (B, rows, G, K), the padding left out.
Tensor from_blocks(const Tensor& x, int64_t rows) {
  const Tensor whole = reshape(transpose(x, {1, 0, 3, 2, 4}), {x.dim(1), -1, x.dim(2), x.dim(4)});
  return rows == whole.dim(1) ? whole : slice_dim(whole, 1, 0, rows);
}

Tensors indices(const Tensor& x, const Tensor& i) {
  Tensors out(x.dims().size(), full_int({DType::kS32, {}}, 0));
  out[0] = i;
  return out;
}

Tensor block_of(const Tensor& x, const Tensor& i) {
  Dims dims = x.dims();
  dims[0] = 1;
  return reshape(dynamic_slice(x, indices(x, i), dims), {dims.begin() + 1, dims.end()});
}

Tensor with_block(const Tensor& x, const Tensor& i, const Tensor& block) {
  Dims dims = x.dims();
  dims[0] = 1;
  return dynamic_update_slice(x, reshape(block, dims), indices(x, i));
}

// Runs `body` on every pair of a block of queries i and a block of keys j <= i, rising, j fastest.
Tensors for_each_pair(
    const Blocks& blocks, const Tensors& state,
    const std::function<Tensors(const Tensor& i, const Tensor& j, const Tensors& state)>& body) {
  const Tensor zero = full_int({DType::kS32, {}}, 0);
  Tensors carry = {zero, zero};
  carry.insert(carry.end(), state.begin(), state.end());
  const auto step = [&](const Tensors& now, const Tensors&) {
    const Tensor &i = now[0], &j = now[1];
    const Tensor last = compare(j, i, Direction::kEq);
    ScanResult next{{i + convert(last, DType::kS32), select(last, zero, j + 1.0)}, {}};
    const Tensors made = body(i, j, {now.begin() + 2, now.end()});
    next.carry.insert(next.carry.end(), made.begin(), made.end());
    return next;
  };
  const Tensors done = scan(step, carry, {}, blocks.count * (blocks.count + 1) / 2).carry;
  return {done.begin() + 2, done.end()};
}

// Scores of one pair, -inf where a key lies after its query: (B, G, r, b), or with `keys_first`
// (B, G, b, r).
Tensor block_scores(const Blocks& blocks, const Tensor& q, const Tensor& k, const Tensor& i,
                    const Tensor& j, bool keys_first) {
  const Tensor &left = keys_first ? k : q, &right = keys_first ? q : k;
  const Tensor scores =
      dot_general(left, right, {0, 1}, {0, 1}, {3}, {3}, accumulate_type(q.dtype())) * blocks.scale;
  const TensorType index{DType::kS32, scores.dims()};
  Tensor query = iota(index, keys_first ? 3 : 2);
  if (blocks.group > 1) query = query / static_cast<double>(blocks.group);
  const Tensor ahead = (i - j) * static_cast<double>(blocks.positions);
  const Tensor seen = compare(query + ahead, iota(index, keys_first ? 2 : 3), Direction::kGe);
  return select(seen, scores, full(scores.type(), -std::numeric_limits<double>::infinity()));
}

// A value (B, G, r) for each key before them: (B, G, b, r).
Tensor for_each_key(const Tensor& x_BGr, const Dims& dims) {
  return broadcast_in_dim(x_BGr, dims, {0, 1, 3});
}

// Keys are the rows here and the gradient of q is summed transposed, so that every product
// contracts the last dim of its left operand: XLA for CPU has fast matmuls for these only.
Tensors flash_backward(const Blocks& blocks, const Tensors& in, const Tensors& out,
                       const Tensors& saved, const Tensors& ct) {
  const DType narrow = in[0].dtype(), wide = accumulate_type(narrow);
  const int64_t count = blocks.count, keys = blocks.positions, rows = keys * blocks.group;
  const Tensor q = to_blocks(in[0], count, rows), k = to_blocks(in[1], count, keys),
               v = to_blocks(in[2], count, keys), d_o = to_blocks(ct[0], count, rows);
  const std::vector<int64_t> flip = {0, 1, 2, 4, 3};
  const Tensor k_flipped = transpose(k, flip);
  const Tensor delta =
      to_blocks(reduce_sum(convert(ct[0], wide) * convert(out[0], wide), {3}), count, rows);
  const auto pair = [&](const Tensor& i, const Tensor& j, const Tensors& state) {
    const Tensor q_i = block_of(q, i), d_o_i = block_of(d_o, i);
    const Tensor scores = block_scores(blocks, q_i, block_of(k, j), i, j, true);
    const Tensor p = exp(scores - for_each_key(block_of(saved[0], i), scores.dims()));
    const Tensor d_p = dot_general(block_of(v, j), d_o_i, {0, 1}, {0, 1}, {3}, {3}, wide);
    const Tensor d_s =
        convert(p * (d_p - for_each_key(block_of(delta, i), p.dims())) * blocks.scale, narrow);
    const auto add_product = [&](const Tensor& sum, const Tensor& at, const Tensor& left,
                                 const Tensor& right) {
      const Tensor product = dot_general(left, right, {0, 1}, {0, 1}, {3}, {2}, wide);
      return with_block(sum, at, block_of(sum, at) + product);
    };
    return Tensors{add_product(state[0], i, block_of(k_flipped, j), d_s),
                   add_product(state[1], j, d_s, q_i),
                   add_product(state[2], j, convert(p, narrow), d_o_i)};
  };
  Dims flipped = q.dims();
  std::swap(flipped[3], flipped[4]);
  const Tensor none = zeros({wide, k.dims()});
  Tensors done = for_each_pair(blocks, {zeros({wide, flipped}), none, none}, pair);
  done[0] = transpose(done[0], flip);
  Tensors grads;
  for (size_t n = 0; n < 3; ++n) {
    grads.push_back(from_blocks(convert(done[n], narrow), in[n].dim(1)));
  }
  return grads;
}

}  // namespace

Tensor flash_attention(const Tensor& q_BTHK, const Tensor& k_BSGK, const Tensor& v_BSGK,
                       int64_t block) {
  check_attention("flash_attention", q_BTHK, k_BSGK, v_BSGK);
  const int64_t length = q_BTHK.dim(1), heads = q_BTHK.dim(2);
  if (length != k_BSGK.dim(1) || block < 1) {
    fail("flash_attention", "needs as many keys as queries and blocks of at least 1, got " +
                                to_string(q_BTHK.type()) + ", " + to_string(k_BSGK.type()) +
                                " and " + std::to_string(block));
  }
  if (length <= block) return causal_attention(q_BTHK, k_BSGK, v_BSGK);

  Blocks blocks;
  blocks.count = (length + block - 1) / block;
  blocks.positions = (length + blocks.count - 1) / blocks.count;
  blocks.group = heads / k_BSGK.dim(2);
  blocks.scale = score_scale(q_BTHK);
  const DType wide = accumulate_type(q_BTHK.dtype());
  const Tensor q_BXGK = heads_to_rows(q_BTHK, k_BSGK.dim(2));
  const Tensor q = to_blocks(q_BXGK, blocks.count, blocks.positions * blocks.group),
               k = to_blocks(k_BSGK, blocks.count, blocks.positions),
               v = to_blocks(v_BSGK, blocks.count, blocks.positions);

  // State: sums of the block of queries at hand (weighted values, highest score, weights), which
  // end with its last pair, and the arrays of all blocks that they are put into. Key 0 is in the
  // first pair and seen by all queries, so scores' maxima are finite from there on, and the sums
  // of the block before shrink to nothing.
  const double lowest = -std::numeric_limits<double>::infinity();
  const auto pair = [&](const Tensor& i, const Tensor& j, const Tensors& state) {
    const Tensor first = broadcast_to(compare(j, 0.0, Direction::kEq), state[1].dims());
    const Tensor before = select(first, full(state[1].type(), lowest), state[1]);
    const Tensor scores = block_scores(blocks, block_of(q, i), block_of(k, j), i, j, false);
    const Tensor highest = max(before, reduce_max(scores, {3}));
    const Tensor shrink = exp(before - highest);
    const Tensor p = exp(scores - along_last(highest, scores.dims()));
    const Tensor sum = state[2] * shrink + reduce_sum(p, {3});
    const Tensor part =
        dot_general(convert(p, q.dtype()), block_of(v, j), {0, 1}, {0, 1}, {3}, {2}, wide);
    const Tensor o = state[0] * along_last(shrink, part.dims()) + part;
    return Tensors{o,
                   highest,
                   sum,
                   with_block(state[3], i, o),
                   with_block(state[4], i, highest),
                   with_block(state[5], i, sum)};
  };
  const Dims row_dims = {q.dim(0), q.dim(1), q.dim(2), q.dim(3)};
  const auto none = [wide](const Dims& dims, size_t first) {
    return zeros({wide, {dims.begin() + static_cast<int64_t>(first), dims.end()}});
  };
  const Tensors done = for_each_pair(blocks,
                                     {none(q.dims(), 1), none(row_dims, 1), none(row_dims, 1),
                                      none(q.dims(), 0), none(row_dims, 0), none(row_dims, 0)},
                                     pair);
  const Tensor sums = done[5];
  const Tensor o =
      from_blocks(convert(done[3] / along_last(sums, q.dims()), q.dtype()), q_BXGK.dim(1));
  const auto backward = [blocks](const Tensors& in, const Tensors& out, const Tensors& saved,
                                 const Tensors& ct) {
    return flash_backward(blocks, in, out, saved, ct);
  };
  const Tensor result = custom_vjp(
      "flash_attention", {q_BXGK, k_BSGK, v_BSGK}, {checkpoint_name(o, kAttentionOutput)},
      {checkpoint_name(done[4] + log(sums), kAttentionOutput)}, backward)[0];
  return rows_to_heads(result, heads);
}

}  // namespace espalier
