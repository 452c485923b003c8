// B batch, T sequence, D n_embd, H heads, K width of a head, F width of the feed-forward layer,
// V vocabulary.
#include "espalier/models/gpt2.h"

#include <cmath>

#include "espalier/nn/layers.h"
#include "espalier/nn/rope.h"
#include "espalier/nn/stack.h"
#include "espalier/ops/annotate.h"
#include "espalier/ops/dot.h"
#include "espalier/ops/elementwise.h"
#include "espalier/ops/gather.h"
#include "espalier/ops/shape.h"

namespace espalier {
namespace {

constexpr double kDeviation = 0.02;

int64_t inner_width(const Gpt2Config& c) { return c.n_inner > 0 ? c.n_inner : 4 * c.n_embd; }
int64_t head_width(const Gpt2Config& c) { return c.n_embd / c.n_head; }
// What ends in the residual stream is scaled by the number of branches: Radford et al. (2019) 2.3.
double residual_deviation(const Gpt2Config& c) {
  return kDeviation / std::sqrt(2.0 * static_cast<double>(c.n_layer));
}

// A parameter that may be left out.
struct Bias {
  std::optional<Param> param;
  Bias(Init in, bool there, Dims dims, LogicalAxes axes, Dims stored_dims = {}) {
    if (!there) return;
    param = in.param("bias", std::move(dims), zeros_init(), std::move(axes), ParamKind::kVector,
                     {{}, {}, std::move(stored_dims)});
  }
  Tensor value(const Ctx& cx) const { return param ? cx[*param] : Tensor(); }
  Tensor operator()(const Tensor& y, const Ctx& cx) const { return param ? y + cx[*param] : y; }
};

struct LayerNorm {
  Param weight;
  Bias bias;
  double epsilon;
  LayerNorm(Init in, const Gpt2Config& c)
      : weight(in.param("weight", {c.n_embd}, ones_init(), {"embed"}, ParamKind::kVector)),
        bias(in, c.bias, {c.n_embd}, {"embed"}),
        epsilon(c.layer_norm_epsilon) {}
  Tensor operator()(const Tensor& x_BTD, const Ctx& cx) const {
    return layer_norm(x_BTD, cx[weight], bias.value(cx), epsilon, cx);
  }
};

struct SelfAttention {
  struct Projections {  // q, k and v in one
    Param weight;
    Bias bias;
    Projections(Init in, const Gpt2Config& c, int64_t d, int64_t h, int64_t k)
        : weight(in.param("weight", {d, 3, h, k}, normal_init(kDeviation),
                          {"embed", "", "heads", "head_dim"}, ParamKind::kHidden,
                          {{0}, {2, 3}, {d, 3 * d}})),
          bias(in, c.bias, {3, h, k}, {"", "heads", "head_dim"}, {3 * d}) {}
  };
  struct Output {
    Param weight;
    Bias bias;
    Output(Init in, const Gpt2Config& c, int64_t d, int64_t h, int64_t k)
        : weight(in.param("weight", {h, k, d}, normal_init(residual_deviation(c)),
                          {"heads", "head_dim", "embed"}, ParamKind::kHidden,
                          {{0, 1}, {2}, {d, d}})),
          bias(in, c.bias, {d}, {"embed"}) {}
  };
  Projections c_attn;
  Output c_proj;
  Attention attention;
  std::optional<RopeOptions> rotary;

  SelfAttention(Init in, const Gpt2Config& c)
      : c_attn(in / "c_attn", c, c.n_embd, c.n_head, head_width(c)),
        c_proj(in / "c_proj", c, c.n_embd, c.n_head, head_width(c)),
        attention(find_attention(c.attention)) {
    if (c.positions == "rope") rotary.emplace().theta = c.rope_theta;
  }

  Tensor operator()(const Tensor& x_BTD, const Ctx& cx) const {
    const Tensor qkv_BTNHK =
        c_attn.bias(dot_general(cx.settled(x_BTD), cx[c_attn.weight], {}, {}, {2}, {0}), cx);
    const Tensor o_BTHK = rotary ? attend_turned(qkv_BTNHK, cx) : attend(attention, qkv_BTNHK, cx);
    return c_proj.bias(dot_general(o_BTHK, cx[c_proj.weight], {}, {}, {2, 3}, {0, 1}), cx);
  }

  Tensor attend_turned(const Tensor& qkv_BTNHK, const Ctx& cx) const {
    Tensors parts = unstack(qkv_BTNHK, 2);
    for (Tensor& part : parts) part = shard(part, {"batch", "seq", "heads", "head_dim"});
    const Tensor at_T = positions(qkv_BTNHK.dim(1), cx);
    return attend(attention, rope(parts[0], at_T, *rotary), rope(parts[1], at_T, *rotary), parts[2],
                  cx);
  }
};

struct Linear {
  Param weight;
  Bias bias;
  Linear(Init in, const Gpt2Config& c, int64_t from, int64_t to, double deviation,
         const LogicalAxes& axes)
      : weight(in.param("weight", {from, to}, normal_init(deviation), axes)),
        bias(in, c.bias, {to}, {axes[1]}) {}
  Tensor operator()(const Tensor& x, const Ctx& cx) const {
    return bias(matmul(cx.settled(x), cx[weight]), cx);
  }
};

struct Mlp {
  Linear c_fc, c_proj;
  bool exact;
  Mlp(Init in, const Gpt2Config& c)
      : c_fc(in / "c_fc", c, c.n_embd, inner_width(c), kDeviation, {"embed", "mlp"}),
        c_proj(in / "c_proj", c, inner_width(c), c.n_embd, residual_deviation(c), {"mlp", "embed"}),
        exact(c.activation == "gelu") {}
  Tensor operator()(const Tensor& x_BTD, const Ctx& cx) const {
    const Tensor h_BTF =
        checkpoint_name(shard(c_fc(x_BTD, cx), {"batch", "seq", "mlp"}), "mlp_hidden");
    return c_proj(exact ? gelu(h_BTF, cx) : gelu_tanh(h_BTF, cx), cx);
  }
};

struct Block {
  LayerNorm ln_1;
  SelfAttention attn;
  LayerNorm ln_2;
  Mlp mlp;
  double rate;

  Block(Init in, const Gpt2Config& c)
      : ln_1(in / "ln_1", c),
        attn(in / "attn", c),
        ln_2(in / "ln_2", c),
        mlp(in / "mlp", c),
        rate(c.dropout) {}

  Tensor operator()(const Tensor& x_BTD, const Ctx& cx) const {
    const LogicalAxes stream = {"batch", "seq", "embed"};
    const Tensor h_BTD = shard(x_BTD + cx.dropout(attn(ln_1(x_BTD, cx), cx), rate), stream);
    return shard(h_BTD + cx.dropout(mlp(ln_2(h_BTD, cx), cx), rate), stream);
  }
};

Gpt2Config checked(const Gpt2Config& c) {
  if (c.vocab_size < 1) {
    throw Error("model.vocab_size must be at least 1, got " + std::to_string(c.vocab_size));
  }
  if (c.n_embd % c.n_head != 0) {
    throw Error("model.n_embd = " + std::to_string(c.n_embd) +
                " is not a multiple of model.n_head = " + std::to_string(c.n_head));
  }
  if (c.positions == "rope" && head_width(c) % 2 != 0) {
    throw Error(
        "model.positions = \"rope\" needs heads of an even width, but model.n_embd / "
        "model.n_head = " +
        std::to_string(head_width(c)));
  }
  return c;
}

class Gpt2 final : public LanguageModel {
 public:
  explicit Gpt2(const Gpt2Config& c)
      : config_(checked(c)),
        wte_((root() / "wte")
                 .param("weight", {c.vocab_size, c.n_embd}, normal_init(kDeviation),
                        {"vocab", "embed"}, ParamKind::kTable)),
        blocks_(root() / "h", c.layers == "scan" ? Layers::kScan : Layers::kUnroll, c.n_layer, c),
        ln_f_(root() / "ln_f", c) {
    if (c.positions == "learned") {
      wpe_ = (root() / "wpe")
                 .param("weight", {c.n_positions, c.n_embd}, normal_init(kDeviation),
                        {"position", "embed"}, ParamKind::kTable);
    }
  }

  std::string_view name() const override { return Gpt2Config::kName; }
  int64_t vocab_size() const override { return config_.vocab_size; }
  int64_t max_len() const override { return config_.n_positions; }
  KvShape kv_shape() const override {
    return {config_.n_layer, config_.n_head, head_width(config_)};
  }

  Tensor hidden(const Tensor& tokens_BT, const Ctx& cx) const override {
    const int64_t length = tokens_BT.dim(1);
    if (length > config_.n_positions) {
      throw Error("[gpt2] takes at most n_positions = " + std::to_string(config_.n_positions) +
                  " tokens, got " + std::to_string(length));
    }
    Tensor x_BTD = take(cx.stored(wte_), tokens_BT);
    if (wpe_) x_BTD = x_BTD + rows_at_positions(cx.stored(*wpe_), length, cx);
    x_BTD = shard(convert(x_BTD, cx.dtype()), {"batch", "seq", "embed"});
    return ln_f_(blocks_(cx.dropout(x_BTD, config_.dropout), cx), cx);
  }

  OutputLayer output(const Ctx& cx) const override { return {cx[wte_], Tensor(), true}; }

 private:
  Init root() { return Init(params_) / "transformer"; }

  Gpt2Config config_;
  Param wte_;
  std::optional<Param> wpe_;
  Stack<Block> blocks_;
  LayerNorm ln_f_;
};

}  // namespace

std::unique_ptr<LanguageModel> make_model(const Gpt2Config& config) {
  return std::make_unique<Gpt2>(config);
}

}  // namespace espalier
