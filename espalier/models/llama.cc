// B batch, T sequence, D dim, H heads, G heads of keys and values, K width of a head, F width of
// the feed-forward layer, V vocabulary.
#include "espalier/models/llama.h"

#include <cmath>

#include "espalier/nn/layers.h"
#include "espalier/nn/rope.h"
#include "espalier/nn/stack.h"
#include "espalier/ops/annotate.h"
#include "espalier/ops/dot.h"
#include "espalier/ops/elementwise.h"
#include "espalier/ops/gather.h"

namespace espalier {
namespace {

constexpr double kDeviation = 0.02;

// What ends in the residual stream is scaled by the number of branches: torchtitan's initial values
// with depth_init off.
double residual_deviation(const Llama3Config& c) {
  return kDeviation / std::sqrt(2.0 * static_cast<double>(c.n_layers));
}

// The residual stream between blocks. A rule for "stream_seq" splits its positions otherwise than
// the layers' own: sequence parallelism (Korthikanti et al. 2022).
const LogicalAxes kStream = {"batch", "stream_seq|seq", "embed"};
// What layers that multiply matrices read.
const LogicalAxes kInput = {"batch", "seq", "embed"};

RopeOptions rope_options(const Llama3Config& c) {
  RopeOptions out;
  out.theta = c.rope_theta;
  if (const Llama3RopeScaling& s = c.rope_scaling; s.rope_type == "llama3") {
    out.scaling = Llama3Scaling{s.factor, s.low_freq_factor, s.high_freq_factor,
                                s.original_max_position_embeddings};
  }
  return out;
}

struct RmsNorm {
  Param weight;
  double epsilon;
  RmsNorm(Init in, const Llama3Config& c)
      : weight(in.param("weight", {c.dim}, ones_init(), {"embed"}, ParamKind::kVector)),
        epsilon(c.norm_eps) {}
  Tensor operator()(const Tensor& x_BTD, const Ctx& cx) const {
    return shard(rms_norm(x_BTD, cx[weight], epsilon), kInput);
  }
};

struct SelfAttention {
  struct Projection {  // (B, T, D) to (B, T, heads, K)
    Param weight;
    Projection(Init in, const Llama3Config& c, int64_t heads, const char* axis)
        : weight(in.param("weight", {heads, c.head_width(), c.dim}, normal_init(kDeviation),
                          {axis, "head_dim", "embed"}, ParamKind::kHidden,
                          {{2}, {0, 1}, {heads * c.head_width(), c.dim}})) {}
    Tensor operator()(const Tensor& x_BTD, const Ctx& cx) const {
      return dot_general(x_BTD, cx[weight], {}, {}, {2}, {2});
    }
  };
  struct Output {
    Param weight;
    Output(Init in, const Llama3Config& c)
        : weight(in.param("weight", {c.dim, c.n_heads, c.head_width()},
                          normal_init(residual_deviation(c)), {"embed", "heads", "head_dim"},
                          ParamKind::kHidden, {{1, 2}, {0}, {c.dim, c.n_heads * c.head_width()}})) {
    }
    Tensor operator()(const Tensor& x_BTHK, const Ctx& cx) const {
      return dot_general(x_BTHK, cx[weight], {}, {}, {2, 3}, {1, 2});
    }
  };
  Projection q_proj, k_proj, v_proj;
  Output o_proj;
  Attention attention;
  RopeOptions rotary;

  SelfAttention(Init in, const Llama3Config& c)
      : q_proj(in / "q_proj", c, c.n_heads, "heads"),
        k_proj(in / "k_proj", c, c.kv_heads(), kKeyHeads),
        v_proj(in / "v_proj", c, c.kv_heads(), kKeyHeads),
        o_proj(in / "o_proj", c),
        attention(find_attention(c.attention)),
        rotary(rope_options(c)) {}

  Tensor operator()(const Tensor& input_BTD, const Ctx& cx) const {
    const Tensor x_BTD = cx.settled(input_BTD);
    const Tensor at_T = positions(x_BTD.dim(1), cx);
    const LogicalAxes keys = {"batch", "seq", kKeyHeads, "head_dim"};
    const Tensor q_BTHK = shard(q_proj(x_BTD, cx), {"batch", "seq", "heads", "head_dim"});
    const Tensor k_BTGK = shard(k_proj(x_BTD, cx), keys);
    const Tensor v_BTGK = shard(v_proj(x_BTD, cx), keys);
    const Tensor o_BTHK =
        attend(attention, rope(q_BTHK, at_T, rotary), rope(k_BTGK, at_T, rotary), v_BTGK, cx);
    return o_proj(o_BTHK, cx);
  }
};

struct Mlp {
  struct Linear {
    Param weight;  // (out, in)
    Linear(Init in, int64_t from, int64_t to, double deviation, LogicalAxes axes)
        : weight(in.param("weight", {to, from}, normal_init(deviation), std::move(axes),
                          ParamKind::kHidden, {{1}, {0}, {}})) {}
    Tensor operator()(const Tensor& x, const Ctx& cx) const {
      return matmul_transposed(x, cx[weight]);
    }
  };
  Linear gate_proj, up_proj, down_proj;
  Mlp(Init in, const Llama3Config& c)
      : gate_proj(in / "gate_proj", c.dim, c.ffn_width(), kDeviation, {"mlp", "embed"}),
        up_proj(in / "up_proj", c.dim, c.ffn_width(), kDeviation, {"mlp", "embed"}),
        down_proj(in / "down_proj", c.ffn_width(), c.dim, residual_deviation(c), {"embed", "mlp"}) {
  }
  Tensor operator()(const Tensor& input_BTD, const Ctx& cx) const {
    const LogicalAxes inner = {"batch", "seq", "mlp"};
    const Tensor x_BTD = cx.settled(input_BTD);
    const auto project = [&](const Linear& layer) {
      return checkpoint_name(shard(layer(x_BTD, cx), inner), "mlp_hidden");
    };
    const Tensor gate_BTF = project(gate_proj), up_BTF = project(up_proj);
    return down_proj(cx.settled(swiglu(gate_BTF, up_BTF)), cx);
  }
};

struct Block {
  RmsNorm input_layernorm;
  SelfAttention self_attn;
  RmsNorm post_attention_layernorm;
  Mlp mlp;

  Block(Init in, const Llama3Config& c)
      : input_layernorm(in / "input_layernorm", c),
        self_attn(in / "self_attn", c),
        post_attention_layernorm(in / "post_attention_layernorm", c),
        mlp(in / "mlp", c) {}

  Tensor operator()(const Tensor& x_BTD, const Ctx& cx) const {
    const auto branch = [](const Tensor& y_BTD) { return shard(y_BTD, kStream); };
    const Tensor h_BTD = x_BTD + branch(self_attn(input_layernorm(x_BTD, cx), cx));
    return shard(h_BTD + branch(mlp(post_attention_layernorm(h_BTD, cx), cx)), kStream);
  }
};

Llama3Config checked(const Llama3Config& c) {
  const auto number = [](int64_t n) { return std::to_string(n); };
  if (c.vocab_size < 1) {
    throw Error("model.vocab_size must be at least 1, got " + number(c.vocab_size));
  }
  if (c.head_dim == 0 && c.dim % c.n_heads != 0) {
    throw Error("model.dim = " + number(c.dim) + " is not a multiple of model.n_heads = " +
                number(c.n_heads) + "; change one, or give model.head_dim");
  }
  if (c.head_width() % 2 != 0) {
    throw Error("rotary positions need heads of an even width, but model.dim / model.n_heads, or " +
                std::string("model.head_dim, is ") + number(c.head_width()));
  }
  if (c.n_heads % c.kv_heads() != 0) {
    throw Error("model.n_heads = " + number(c.n_heads) +
                " is not a multiple of model.n_kv_heads = " + number(c.n_kv_heads));
  }
  if (c.ffn_width() < 1) {
    throw Error("model.ffn_dim_multiplier = " + std::to_string(c.ffn_dim_multiplier) +
                " leaves no feed-forward layer");
  }
  rope_frequencies(c.head_width(), rope_options(c));
  return c;
}

class Llama3 final : public LanguageModel {
 public:
  explicit Llama3(const Llama3Config& c)
      : config_(checked(c)),
        embed_tokens_((root() / "embed_tokens")
                          .param("weight", {c.vocab_size, c.dim}, normal_init(kDeviation),
                                 {"vocab", "embed"}, ParamKind::kTable)),
        layers_(root() / "layers", c.layers == "scan" ? Layers::kScan : Layers::kUnroll, c.n_layers,
                c),
        norm_(root() / "norm", c) {
    if (c.tie_embeddings) return;
    lm_head_ = (Init(params_) / "lm_head")
                   .param("weight", {c.vocab_size, c.dim}, normal_init(kDeviation),
                          {"vocab", "embed"}, ParamKind::kTable);
  }

  std::string_view name() const override { return Llama3Config::kName; }
  int64_t vocab_size() const override { return config_.vocab_size; }
  int64_t max_len() const override { return config_.max_seq_len; }
  KvShape kv_shape() const override {
    return {config_.n_layers, config_.kv_heads(), config_.head_width()};
  }

  Tensor hidden(const Tensor& tokens_BT, const Ctx& cx) const override {
    if (tokens_BT.dim(1) > config_.max_seq_len) {
      throw Error("[llama3] takes at most max_seq_len = " + std::to_string(config_.max_seq_len) +
                  " tokens, got " + std::to_string(tokens_BT.dim(1)));
    }
    const Tensor x_BTD = convert(take(cx.stored(embed_tokens_), tokens_BT), cx.dtype());
    return norm_(layers_(shard(x_BTD, kStream), cx), cx);
  }

  OutputLayer output(const Ctx& cx) const override {
    return {cx[lm_head_.value_or(embed_tokens_)], Tensor(), true};
  }

 private:
  Init root() { return Init(params_) / "model"; }

  Llama3Config config_;
  Param embed_tokens_;
  Stack<Block> layers_;
  RmsNorm norm_;
  std::optional<Param> lm_head_;
};

}  // namespace

std::unique_ptr<LanguageModel> make_model(const Llama3Config& config) {
  return std::make_unique<Llama3>(config);
}

}  // namespace espalier
