// B batch, T sequence, D embed_dim, H heads, K width of a head, F feed_forward_dim, V vocabulary.
#include "espalier/models/minigpt.h"

#include <cmath>

#include "espalier/nn/layers.h"
#include "espalier/nn/stack.h"
#include "espalier/ops/annotate.h"
#include "espalier/ops/dot.h"
#include "espalier/ops/elementwise.h"
#include "espalier/ops/gather.h"
#include "espalier/ops/shape.h"

namespace espalier {
namespace {

constexpr double kEpsilon = 1e-6;

struct LayerNorm {
  Param scale, bias;
  LayerNorm(Init in, int64_t width)
      : scale(in.param("scale", {width}, ones_init(), {"embed"}, ParamKind::kVector)),
        bias(in.param("bias", {width}, zeros_init(), {"embed"}, ParamKind::kVector)) {}
  Tensor operator()(const Tensor& x_BTD, const Ctx& cx) const {
    return layer_norm(x_BTD, cx[scale], cx[bias], kEpsilon, cx);
  }
};

struct MultiHeadAttention {
  struct Projection {
    Param kernel, bias;
    Projection(Init in, int64_t d, int64_t h, int64_t k)
        : kernel(in.param("kernel", {d, h, k}, xavier_uniform(d, h * k),
                          {"embed", "heads", "head_dim"}, ParamKind::kHidden, {{0}, {1, 2}, {}})),
          bias(in.param("bias", {h, k}, zeros_init(), {"heads", "head_dim"}, ParamKind::kVector)) {}
    Tensor operator()(const Tensor& x_BTD, const Ctx& cx) const {
      // One 2-D product: (D, H, K) is (D, H * K) in memory.
      const Tensor w_DHK = cx[kernel];
      const Tensor y = dot_general(x_BTD, w_DHK, {}, {}, {2}, {0}) + cx[bias];
      return shard(y, {"batch", "seq", "heads", "head_dim"});
    }
  };
  Projection query, key, value;
  Param out_kernel, out_bias;
  Attention attention;

  MultiHeadAttention(Init in, const MiniGptConfig& c, int64_t k)
      : query(in / "query", c.embed_dim, c.num_heads, k),
        key(in / "key", c.embed_dim, c.num_heads, k),
        value(in / "value", c.embed_dim, c.num_heads, k),
        out_kernel((in / "out")
                       .param("kernel", {c.num_heads, k, c.embed_dim},
                              xavier_uniform(c.num_heads * k, c.embed_dim),
                              {"heads", "head_dim", "embed"}, ParamKind::kHidden,
                              {{0, 1}, {2}, {}})),
        out_bias(
            (in / "out").param("bias", {c.embed_dim}, zeros_init(), {"embed"}, ParamKind::kVector)),
        attention(find_attention(c.attention)) {}

  Tensor operator()(const Tensor& x_BTD, const Ctx& cx) const {
    const Tensor o_BTHK = attend(attention, query(x_BTD, cx), key(x_BTD, cx), value(x_BTD, cx), cx);
    return dot_general(o_BTHK, cx[out_kernel], {}, {}, {2, 3}, {0, 1}) + cx[out_bias];
  }
};

struct Linear {
  Param kernel, bias;
  Linear(Init in, int64_t from, int64_t to, const LogicalAxes& axes,
         ParamKind kind = ParamKind::kHidden)
      : kernel(in.param("kernel", {from, to}, xavier_uniform(from, to), axes, kind)),
        bias(in.param("bias", {to}, zeros_init(), {axes[1]}, ParamKind::kVector)) {}
  Tensor operator()(const Tensor& x, const Ctx& cx) const {
    return matmul(x, cx[kernel]) + cx[bias];
  }
};

struct Block {
  MultiHeadAttention mha;
  LayerNorm ln1;
  Linear l1, l2;
  LayerNorm ln2;
  double rate;

  Block(Init in, const MiniGptConfig& c)
      : mha(in / "mha", c, c.embed_dim / c.num_heads),
        ln1(in / "ln1", c.embed_dim),
        l1(in / "l1", c.embed_dim, c.feed_forward_dim, {"embed", "mlp"}),
        l2(in / "l2", c.feed_forward_dim, c.embed_dim, {"mlp", "embed"}),
        ln2(in / "ln2", c.embed_dim),
        rate(c.dropout) {}

  Tensor operator()(const Tensor& x_BTD, const Ctx& cx) const {
    const LogicalAxes hidden = {"batch", "seq", "embed"};
    const Tensor attended = cx.dropout(mha(x_BTD, cx), rate);
    const Tensor h_BTD = shard(ln1(x_BTD + attended, cx), hidden);
    const Tensor f_BTF =
        shard(relu(checkpoint_name(l1(h_BTD, cx), "mlp_hidden")), {"batch", "seq", "mlp"});
    return shard(ln2(h_BTD + cx.dropout(l2(f_BTF, cx), rate), cx), hidden);
  }
};

MiniGptConfig checked(MiniGptConfig c) {
  if (c.vocab_size < 1) {
    throw Error("model.vocab_size must be at least 1, got " + std::to_string(c.vocab_size));
  }
  if (c.embed_dim % c.num_heads != 0) {
    throw Error("model.embed_dim = " + std::to_string(c.embed_dim) +
                " is not a multiple of model.num_heads = " + std::to_string(c.num_heads));
  }
  return c;
}

// The tutorial's embedding tables: flax's default, normal with deviation 1 / sqrt(D).
Initializer embedding_init(int64_t width) {
  return normal_init(1.0 / std::sqrt(static_cast<double>(width)));
}

class MiniGpt final : public LanguageModel {
 public:
  explicit MiniGpt(const MiniGptConfig& c)
      : config_(checked(c)),
        tok_((root() / "tok")
                 .param("embedding", {c.vocab_size, c.embed_dim}, embedding_init(c.embed_dim),
                        {"vocab", "embed"}, ParamKind::kTable)),
        pos_((root() / "pos")
                 .param("embedding", {c.maxlen, c.embed_dim}, embedding_init(c.embed_dim),
                        {"position", "embed"}, ParamKind::kTable)),
        blocks_(root() / "blocks", c.layers == "scan" ? Layers::kScan : Layers::kUnroll,
                c.num_transformer_blocks, c),
        out_(root() / "out", c.embed_dim, c.vocab_size, {"embed", "vocab"}, ParamKind::kTable) {}

  std::string_view name() const override { return "minigpt"; }
  int64_t vocab_size() const override { return config_.vocab_size; }
  int64_t max_len() const override { return config_.maxlen; }

  Tensor hidden(const Tensor& tokens_BT, const Ctx& cx) const override {
    const int64_t seq = tokens_BT.dim(1);
    if (seq > config_.maxlen) {
      throw Error("[minigpt] takes at most maxlen = " + std::to_string(config_.maxlen) +
                  " tokens, got " + std::to_string(seq));
    }
    const Tensor pos_TD = rows_at_positions(cx.stored(pos_), seq, cx);
    const Tensor x_BTD = convert(take(cx.stored(tok_), tokens_BT) + pos_TD, cx.dtype());
    return blocks_(shard(x_BTD, {"batch", "seq", "embed"}), cx);
  }

  KvShape kv_shape() const override {
    return {config_.num_transformer_blocks, config_.num_heads,
            config_.embed_dim / config_.num_heads};
  }

  OutputLayer output(const Ctx& cx) const override { return {cx[out_.kernel], cx[out_.bias]}; }

 private:
  Init root() { return Init(params_); }

  MiniGptConfig config_;
  Param tok_, pos_;
  Stack<Block> blocks_;
  Linear out_;
};

}  // namespace

Status MiniGptConfig::apply_preset(const std::string& name) {
  return Failure{Code::kInvalidArgument,
                 "model.preset = \"" + name + "\": minigpt has no presets; leave the key out"};
}

std::unique_ptr<LanguageModel> make_model(const MiniGptConfig& config) {
  return std::make_unique<MiniGpt>(config);
}

}  // namespace espalier
