// miniGPT: the post-LN transformer of JAX's tutorial "Pretraining an LLM (miniGPT)": token and
// position embeddings, blocks of multi-head attention and a ReLU feed-forward layer, each followed
// by dropout, a residual sum and LayerNorm, and an output layer with bias.
//
// Parameter names are those of the tutorial's flax modules with its fields shortened (tok, pos,
// blocks.N.{mha.{query,key,value,out},ln1,l1,l2,ln2}, out).
#pragma once

#include "espalier/config/fields.h"
#include "espalier/models/language_model.h"

namespace espalier {

struct MiniGptConfig {
  static constexpr std::string_view kName = "minigpt";

  int64_t vocab_size = 0;  // 0: the tokenizer's
  int64_t maxlen = 256;
  int64_t embed_dim = 256;
  int64_t num_heads = 8;
  int64_t feed_forward_dim = 256;
  int64_t num_transformer_blocks = 8;
  double dropout = 0.1;
  std::string attention = "auto";  // see find_attention()
  std::string layers = "scan";     // or "unroll"

  Status apply_preset(const std::string& name);  // there is none
  SequenceLength length() const { return {maxlen, "maxlen"}; }
};

template <class V>
void bind(V& v, MiniGptConfig& c) {
  v("vocab_size", c.vocab_size, at_least(0));
  v("maxlen", c.maxlen, at_least(2));
  v("embed_dim", c.embed_dim, at_least(1));
  v("num_heads", c.num_heads, at_least(1));
  v("feed_forward_dim", c.feed_forward_dim, at_least(1));
  v("num_transformer_blocks", c.num_transformer_blocks, at_least(1));
  v("dropout", c.dropout, at_least(0), less_than(1));
  v("attention", c.attention, not_empty());
  v("layers", c.layers, one_of({"scan", "unroll"}));
}

// Throws Error naming the key where the sizes do not fit together.
std::unique_ptr<LanguageModel> make_model(const MiniGptConfig& config);

}  // namespace espalier
