#include "espalier/nn/attention.h"

#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <mutex>
#include <optional>

#include "espalier/nn/attention_rows.h"
#include "espalier/nn/layers.h"
#include "espalier/ops/annotate.h"
#include "espalier/ops/dot.h"
#include "espalier/ops/elementwise.h"
#include "espalier/ops/reduce.h"
#include "espalier/ops/shape.h"
#include "espalier/ops/source.h"

namespace espalier {

void check_attention(const char* name, const Tensor& q, const Tensor& k, const Tensor& v) {
  const bool ok = q.rank() == 4 && k.rank() == 4 && k.type() == v.type() &&
                  q.dtype() == k.dtype() && is_floating(q.dtype()) && q.dim(0) == k.dim(0) &&
                  q.dim(3) == k.dim(3) && k.dim(2) > 0 && q.dim(2) % k.dim(2) == 0;
  if (ok) return;
  fail(name,
       "needs q (B, T, H, K) and k, v (B, S, G, K) of one floating-point type, where G divides H; "
       "got " +
           to_string(q.type()) + ", " + to_string(k.type()) + " and " + to_string(v.type()));
}

Tensor heads_to_rows(const Tensor& q, int64_t key_heads) {
  const int64_t group = q.dim(2) / key_heads;
  if (group == 1) return q;
  const Tensor split = reshape(q, {q.dim(0), q.dim(1), key_heads, group, q.dim(3)});
  return reshape(transpose(split, {0, 1, 3, 2, 4}), {q.dim(0), -1, key_heads, q.dim(3)});
}

Tensor rows_to_heads(const Tensor& x, int64_t query_heads) {
  const int64_t group = query_heads / x.dim(2);
  if (group == 1) return x;
  const Tensor split = reshape(x, {x.dim(0), x.dim(1) / group, group, x.dim(2), x.dim(3)});
  return reshape(transpose(split, {0, 1, 3, 2, 4}), {x.dim(0), -1, query_heads, x.dim(3)});
}

double score_scale(const Tensor& q) { return 1.0 / std::sqrt(static_cast<double>(q.dim(-1))); }

Tensor causal_scores(const Tensor& q_BXGK, const Tensor& k_BSGK, const Sight& sight) {
  const Tensor scores =
      dot_general(q_BXGK, k_BSGK, {0, 2}, {0, 2}, {3}, {3}, accumulate_type(q_BXGK.dtype())) *
      score_scale(q_BXGK);
  const TensorType index{DType::kS32, scores.dims()};
  Tensor query = iota(index, 2);
  if (sight.group > 1) query = query / static_cast<double>(sight.group);
  if (!sight.position.empty()) query = query + sight.position;
  const Tensor key = iota(index, 3);
  const Tensor none = full(scores.type(), -std::numeric_limits<double>::infinity());
  const Tensor seen = select(compare(query, key, Direction::kGe), scores, none);
  if (sight.keys.empty()) return seen;
  return select(compare(key, broadcast_to(sight.keys, index.dims), Direction::kLt), seen, none);
}

Tensor row_deltas(const Tensor& o, const Tensor& d_o) {
  const DType wide = accumulate_type(o.dtype());
  return transpose(reduce_sum(convert(d_o, wide) * convert(o, wide), {3}), {0, 2, 1});
}

RowGradients row_gradients(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& d_o,
                           const Tensor& log_sum, const Tensor& delta, const Sight& sight,
                           DType result) {
  const DType narrow = q.dtype(), wide = accumulate_type(narrow);
  const Tensor scores = causal_scores(q, k, sight);
  const Tensor p = exp(scores - along_last(log_sum, scores.dims()));  // BGXS
  const Tensor d_p = dot_general(d_o, v, {0, 2}, {0, 2}, {3}, {3}, wide);
  const Tensor d_s = convert(p * (d_p - along_last(delta, p.dims())) * score_scale(q), narrow);
  // The wide arrays are on the right, contracted in their first free dim: so XLA for CPU has fast
  // matmuls, and moves no array of X × S elements.
  return {dot_general(d_s, k, {0, 1}, {0, 2}, {3}, {1}, result),
          dot_general(q, d_s, {0, 2}, {0, 1}, {1}, {2}, result),
          dot_general(d_o, convert(p, narrow), {0, 2}, {0, 1}, {1}, {2}, result)};
}

namespace {

struct Averaged {
  Tensor o_BXGK, log_sum_BGX;
};

Averaged average(const Tensor& scores, const Tensor& v) {
  const Tensor highest = reduce_max(scores, {3});
  const Tensor e = exp(scores - along_last(highest, scores.dims()));
  const Tensor sum = reduce_sum(e, {3});
  const Tensor p = convert(e / along_last(sum, e.dims()), v.dtype());
  const Tensor o_BGXK = dot_general(p, v, {0, 1}, {0, 2}, {3}, {1});
  return {transpose(o_BGXK, {0, 2, 1, 3}), highest + log(sum)};
}

Tensors dense_backward(const Tensors& in, const Tensors& out, const Tensors& saved,
                       const Tensors& ct, int64_t group) {
  const RowGradients d = row_gradients(in[0], in[1], in[2], ct[0], saved[0],
                                       row_deltas(out[0], ct[0]), {group}, in[0].dtype());
  return {transpose(d.d_q_BGXK, {0, 2, 1, 3}), transpose(d.d_k_BGKS, {0, 3, 1, 2}),
          transpose(d.d_v_BGKS, {0, 3, 1, 2})};
}

}  // namespace

Tensor causal_attention(const Tensor& q, const Tensor& k, const Tensor& v) {
  check_attention("causal_attention", q, k, v);
  if (q.dim(1) != k.dim(1)) {
    fail("causal_attention", "needs as many keys as queries, got " + to_string(q.type()) + " and " +
                                 to_string(k.type()));
  }
  const int64_t heads = q.dim(2), group = heads / k.dim(2);
  const Tensor rows = heads_to_rows(q, k.dim(2));
  const Averaged done = average(causal_scores(rows, k, {group}), v);
  const auto backward = [group](const Tensors& in, const Tensors& out, const Tensors& saved,
                                const Tensors& ct) {
    return dense_backward(in, out, saved, ct, group);
  };
  const Tensor o =
      custom_vjp("causal_attention", {rows, k, v}, {checkpoint_name(done.o_BXGK, kAttentionOutput)},
                 {checkpoint_name(done.log_sum_BGX, kAttentionOutput)}, backward)[0];
  return rows_to_heads(o, heads);
}

Tensor cached_attention(const Tensor& q, const Tensor& keys, const Tensor& values,
                        const Tensor& position) {
  check_attention("cached_attention", q, keys, values);
  if (position.type() != TensorType{DType::kS32, {}}) {
    fail("cached_attention", "needs the position as i32[], got " + to_string(position.type()));
  }
  const int64_t heads = q.dim(2), group = heads / keys.dim(2);
  const Tensor scores = causal_scores(heads_to_rows(q, keys.dim(2)), keys, {group, position});
  return rows_to_heads(average(scores, values).o_BXGK, heads);
}

namespace {

Tensor automatic_attention(const Tensor& q, const Tensor& k, const Tensor& v, const Ctx& cx) {
  constexpr int64_t kLong = 1024;
  if (is_ring_possible(k, cx)) return ring_attention(q, k, v, cx);
  if (has_fused_attention(q, cx) && fused_attention_moves_nothing(k.dim(2), cx)) {
    return fused_attention(q, k, v, cx);
  }
  return q.dim(1) >= kLong ? flash_attention(q, k, v) : causal_attention(q, k, v);
}

// Slices are as well for the others.
Tensor automatic_packed_attention(const Tensor& qkv, const Ctx& cx) {
  const bool fused =
      has_packed_fused_attention(qkv, cx) && fused_attention_moves_nothing(qkv.dim(3), cx);
  return fused ? packed_fused_attention(qkv, cx) : Tensor();
}

struct Registry {
  Registry() {
    const auto add = [&](const char* name, auto attention) {
      known[name] = {Attention([attention](const Tensor& q, const Tensor& k, const Tensor& v,
                                           const Ctx&) { return attention(q, k, v); }),
                     true};
    };
    add("dense", [](const Tensor& q, const Tensor& k, const Tensor& v) {
      return causal_attention(q, k, v);
    });
    add("flash",
        [](const Tensor& q, const Tensor& k, const Tensor& v) { return flash_attention(q, k, v); });
    const auto packed = [](const Tensor& qkv, const Ctx& cx) {
      return has_packed_fused_attention(qkv, cx) ? packed_fused_attention(qkv, cx) : Tensor();
    };
    known["fused"] = {{fused_attention, packed}, true};
    known["ring"] = {ring_attention, true};
    known["auto"] = {{automatic_attention, automatic_packed_attention}, true};
  }
  struct Entry {
    Attention attention;
    bool built_in = false;
  };
  std::mutex mutex;
  std::map<std::string, Entry> known;
};

Registry& registry() {
  static Registry made;
  return made;
}

// The block of a name like "flash:64"; nothing where it is no such name.
std::optional<int64_t> flash_block(const std::string& name) {
  constexpr std::string_view kPrefix = "flash:";
  if (!name.starts_with(kPrefix)) return std::nullopt;
  int64_t block = 0;
  const char* end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data() + kPrefix.size(), end, block);
  if (error != std::errc() || stop != end || block < 1) {
    throw Error("attention '" + name +
                "': behind \"flash:\" stands the block's positions, at least 1");
  }
  return block;
}

}  // namespace

void register_attention(std::string name, Attention attention) {
  if (name.empty() || !attention.separate) {
    throw Error("[register_attention] needs a name and a function; '" + name + "' lacks one");
  }
  const bool in_blocks = flash_block(name).has_value();
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  const auto found = all.known.find(name);
  if (in_blocks || (found != all.known.end() && found->second.built_in)) {
    throw Error("[register_attention] '" + name + "' is built in; choose another name",
                Code::kAlreadyExists);
  }
  all.known[std::move(name)].attention = std::move(attention);
}

Attention find_attention(const std::string& name) {
  if (const auto block = flash_block(name)) {
    return [block](const Tensor& q, const Tensor& k, const Tensor& v, const Ctx&) {
      return flash_attention(q, k, v, *block);
    };
  }
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  const auto found = all.known.find(name);
  if (found != all.known.end()) return found->second.attention;
  std::string names;
  for (const auto& [known, entry] : all.known) names += (names.empty() ? "'" : ", '") + known + "'";
  throw Error("there is no attention '" + name + "'; known are " + names);
}

}  // namespace espalier
