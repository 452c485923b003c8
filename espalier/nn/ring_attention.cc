// B batch, T positions of a piece (queries, keys), X rows (see attention_rows.h), H heads of
// queries, G of keys, K width of a head, S keys of a block, N blocks of a piece.
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
#include "espalier/ops/shard_map.h"
#include "espalier/ops/source.h"

namespace espalier {
namespace {

struct Ring {
  Mesh mesh;
  std::string axis;  // of the ring
  PartitionSpec array, log_sum;
  int64_t group = 0;  // heads of queries of each head of keys
};

PartitionSpec split_of(const Placement& at) {
  PartitionSpec spec = at.rules.resolve({"batch", "seq", "heads", ""}, at.mesh);
  std::erase_if(spec[1], [&](const std::string& axis) { return at.mesh.size(axis) == 1; });
  return spec;
}

Ring ring_of(const Tensor& q, const Tensor& k, const Placement& at) {
  PartitionSpec spec = split_of(at);
  if (spec[1].size() != 1) {
    fail("ring_attention", "needs 'seq' split over one mesh axis, it is split over " +
                               std::to_string(spec[1].size()) +
                               "; give [mesh] one axis for it, or choose attention \"flash\"");
  }
  const std::string axis = spec[1][0];
  if (q.dim(1) % at.mesh.size(spec[1]) != 0) {
    fail("ring_attention",
         "the sequence of " + std::to_string(q.dim(1)) + " is not divided by mesh axis '" + axis +
             "' of " + std::to_string(at.mesh.size(spec[1])) + "; change data.seq_len or the mesh");
  }
  if (k.dim(2) % at.mesh.size(spec[2]) != 0) spec[2].clear();
  return {at.mesh, axis, spec, {spec[0], spec[2], spec[1]}, q.dim(2) / k.dim(2)};
}

Tensor scalar(int64_t value) { return full_int({DType::kS32, {}}, value); }

// (B, T, G, K) as (N, B, S, G, K), padded with zeros, and back.
Tensor to_blocks(const Tensor& x) {
  const int64_t length = x.dim(1), count = (length + kRingBlock - 1) / kRingBlock,
                block = (length + count - 1) / count, more = count * block - length;
  const Tensor whole = more == 0 ? x : pad(x, 0, {0, 0, 0, 0}, {0, more, 0, 0});
  return transpose(reshape(whole, {x.dim(0), count, block, x.dim(2), x.dim(3)}), {1, 0, 2, 3, 4});
}
Tensor from_blocks(const Tensor& x, int64_t length) {
  const Tensor whole = reshape(transpose(x, {1, 0, 2, 3, 4}), {x.dim(1), -1, x.dim(3), x.dim(4)});
  return whole.dim(1) == length ? whole : slice_dim(whole, 1, 0, length);
}

// Runs `body` for every block of a piece of `keys` and values, whose first key stands `ahead`
// places before the first query, with what its queries see of it.
ScanResult for_each_block(
    const Tensors& state, const Tensors& kv, const Ring& ring, const Tensor& ahead,
    const std::function<ScanResult(const Tensors&, const Tensors&, const Sight&)>& body) {
  const Tensors blocks = {to_blocks(kv[0]), to_blocks(kv[1])};
  const int64_t length = kv[0].dim(1), block = blocks[0].dim(2);
  const bool padded = blocks[0].dim(0) * block != length;
  Tensors carry = state;
  carry.insert(carry.end(), {ahead, scalar(length)});  // keys that are left
  const auto step = [&](const Tensors& now, const Tensors& elements) {
    const Tensor &position = now.end()[-2], &left = now.back();
    const Sight sight{ring.group, position, padded ? left : Tensor()};
    ScanResult next = body({now.begin(), now.end() - 2}, elements, sight);
    const auto size = static_cast<double>(block);
    next.carry.insert(next.carry.end(), {position - size, left - size});
    return next;
  };
  ScanResult done = scan(step, carry, blocks);
  done.carry.resize(state.size());
  return done;
}

// How many places the piece that is here after `turns` turns stands before this device's own.
Tensor places_ahead(const Manual& manual, const Ring& ring, const Tensor& turns, int64_t length) {
  const Tensor own = manual.axis_index(ring.axis);
  const Tensor wraps = convert(compare(turns, own, Direction::kGt), DType::kS32);
  const double round = static_cast<double>(manual.axis_size(ring.axis));
  return (turns - wraps * round) * static_cast<double>(length);
}

// `body` with the own piece and then each that comes round: `moving` are the arrays that go on
// before every turn but the first.
Tensors for_each_piece(
    const Manual& manual, const Ring& ring, int64_t length, const Tensors& resting,
    const Tensors& moving,
    const std::function<Tensors(const Tensors& state, const Tensor& ahead)>& body) {
  Tensors state = resting;
  state.insert(state.end(), moving.begin(), moving.end());
  state = body(state, scalar(0));
  state.push_back(scalar(1));
  const auto step = [&](const Tensors& now, const Tensors&) {
    Tensors here(now.begin(), now.end() - 1);
    for (size_t i = resting.size(); i < here.size(); ++i) {
      here[i] = manual.rotate(here[i], ring.axis);
    }
    ScanResult next{body(here, places_ahead(manual, ring, now.back(), length)), {}};
    next.carry.push_back(now.back() + 1.0);
    return next;
  };
  const int64_t turns = manual.axis_size(ring.axis) - 1;
  if (turns > 0) state = scan(step, state, {}, turns).carry;
  state.pop_back();
  return state;
}

// o (B, T, H, K) and log_sum (B, H, T) of a device's queries.
Tensors forward(const Ring& ring, const Tensors& in, const Manual& manual) {
  const int64_t length = in[1].dim(1), heads = in[0].dim(2);
  const DType narrow = in[0].dtype(), wide = accumulate_type(narrow);
  const Tensor q_BXGK = heads_to_rows(in[0], in[1].dim(2));
  const Dims rows = {q_BXGK.dim(0), q_BXGK.dim(2), q_BXGK.dim(1)};
  Dims o_dims = rows;
  o_dims.push_back(q_BXGK.dim(3));
  const auto one_block = [&](const Tensors& state, const Tensors& kv, const Sight& sight) {
    const Tensor scores = causal_scores(q_BXGK, kv[0], sight);
    const Tensor highest = max(state[1], reduce_max(scores, {3}));
    const Tensor shrink = exp(state[1] - highest);
    const Tensor p = exp(scores - along_last(highest, scores.dims()));
    const Tensor part = dot_general(convert(p, narrow), kv[1], {0, 1}, {0, 2}, {3}, {1}, wide);
    return ScanResult{{state[0] * along_last(shrink, part.dims()) + part, highest,
                       state[2] * shrink + reduce_sum(p, {3})},
                      {}};
  };
  // The first block is of the own piece and holds its key 0, which all its queries see: the highest
  // score of every row is finite from there on.
  const auto piece = [&](const Tensors& state, const Tensor& ahead) {
    Tensors next =
        for_each_block({state[0], state[1], state[2]}, {state[3], state[4]}, ring, ahead, one_block)
            .carry;
    next.insert(next.end(), {state[3], state[4]});
    return next;
  };
  const double lowest = -std::numeric_limits<double>::infinity();
  const Tensors done =
      for_each_piece(manual, ring, length,
                     {zeros({wide, o_dims}), full({wide, rows}, lowest), zeros({wide, rows})},
                     {in[1], in[2]}, piece);
  const Tensor o_BGXK = convert(done[0] / along_last(done[2], o_dims), narrow);
  const Tensor log_sum_BXG1 =
      reshape(transpose(done[1] + log(done[2]), {0, 2, 1}), {rows[0], rows[2], rows[1], 1});
  const Tensor log_sum_BTH1 = rows_to_heads(log_sum_BXG1, heads);
  return {rows_to_heads(transpose(o_BGXK, {0, 2, 1, 3}), heads),
          transpose(reshape(log_sum_BTH1, {rows[0], length, heads}), {0, 2, 1})};
}

// The gradients of q, k and v.
Tensors backward(const Ring& ring, const Tensors& in, const Manual& manual) {
  const int64_t length = in[1].dim(1), heads = in[0].dim(2), key_heads = in[1].dim(2);
  const DType narrow = in[0].dtype(), wide = accumulate_type(narrow);
  const Tensor q = heads_to_rows(in[0], key_heads), o = heads_to_rows(in[3], key_heads),
               d_o = heads_to_rows(in[5], key_heads);
  const Tensor log_sum_BTH1 = reshape(transpose(in[4], {0, 2, 1}), {q.dim(0), length, heads, 1});
  const Tensor log_sum_BXG1 = heads_to_rows(log_sum_BTH1, key_heads);
  const Tensor log_sum =
      transpose(reshape(log_sum_BXG1, {q.dim(0), q.dim(1), key_heads}), {0, 2, 1});
  const Tensor delta = row_deltas(o, d_o);
  const auto one_block = [&](const Tensors& state, const Tensors& kv, const Sight& sight) {
    const RowGradients d = row_gradients(q, kv[0], kv[1], d_o, log_sum, delta, sight, wide);
    const auto by_keys = [](const Tensor& x_BGKS) { return transpose(x_BGKS, {0, 3, 1, 2}); };
    return ScanResult{{state[0] + d.d_q_BGXK}, {by_keys(d.d_k_BGKS), by_keys(d.d_v_BGKS)}};
  };
  const auto piece = [&](const Tensors& state, const Tensor& ahead) {
    const ScanResult made =
        for_each_block({state[0]}, {state[1], state[2]}, ring, ahead, one_block);
    return Tensors{made.carry[0], state[1], state[2],
                   state[3] + from_blocks(made.outputs[0], length),
                   state[4] + from_blocks(made.outputs[1], length)};
  };
  const Tensor none_q = zeros({wide, {q.dim(0), q.dim(2), q.dim(1), q.dim(3)}});
  const Tensor none_k = zeros({wide, in[1].dims()});
  Tensors done =
      for_each_piece(manual, ring, length, {none_q}, {in[1], in[2], none_k, none_k}, piece);
  // One turn more brings the sums home.
  const auto home = [&](const Tensor& x) { return convert(manual.rotate(x, ring.axis), narrow); };
  return {rows_to_heads(transpose(convert(done[0], narrow), {0, 2, 1, 3}), heads), home(done[3]),
          home(done[4])};
}

}  // namespace

bool is_ring_possible(const Tensor& k, const Ctx& cx) {
  const Placement& at = cx.placement();
  const PartitionSpec spec = split_of(at);
  return spec[1].size() == 1 && k.dim(1) % at.mesh.size(spec[1]) == 0 &&
         k.dim(2) % at.mesh.size(spec[2]) == 0;
}

Tensor ring_attention(const Tensor& q, const Tensor& k, const Tensor& v, const Ctx& cx) {
  check_attention("ring_attention", q, k, v);
  if (q.dim(1) != k.dim(1)) {
    fail("ring_attention", "needs as many keys as queries, got " + to_string(q.type()) + " and " +
                               to_string(k.type()));
  }
  if (cx.placement().mesh.size(split_of(cx.placement())[1]) == 1) return flash_attention(q, k, v);
  const Ring ring = ring_of(q, k, cx.placement());
  const PartitionSpec &array = ring.array, &sums = ring.log_sum;
  const auto run = [ring](const auto& body, const std::vector<PartitionSpec>& in,
                          const std::vector<PartitionSpec>& out, const Tensors& operands) {
    const auto call = [&](const Tensors& pieces, const Manual& manual) {
      return body(ring, pieces, manual);
    };
    return shard_map(ring.mesh, {}, in, out, call, operands);
  };
  // The rule below is the gradient: none is wanted of the manual region.
  const Tensors done = run(forward, {array, array, array}, {array, sums},
                           {stop_gradient(q), stop_gradient(k), stop_gradient(v)});
  const auto rule = [ring, run](const Tensors& in, const Tensors& out, const Tensors& saved,
                                const Tensors& ct) {
    const PartitionSpec &array = ring.array, &sums = ring.log_sum;
    return run(backward, {array, array, array, array, sums, array}, {array, array, array},
               {in[0], in[1], in[2], out[0], saved[0], ct[0]});
  };
  return custom_vjp("ring_attention", {q, k, v}, {checkpoint_name(done[0], kAttentionOutput)},
                    {checkpoint_name(done[1], kAttentionOutput)}, rule)[0];
}

}  // namespace espalier
