// GPT-2: the pre-LN transformer of Radford et al. (2019), with the options that nanoGPT adds: no
// biases, dropout, rotary positions. The token embedding is the output layer too.
//
// Parameter names are Hugging Face's (transformer.wte.weight, transformer.h.N.attn.c_attn.weight);
// a checkpoint stores c_attn's weight as (D, 3 D), as there, while the program splits heads.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "espalier/config/fields.h"
#include "espalier/models/language_model.h"

namespace espalier {

struct Gpt2Config {
  static constexpr std::string_view kName = "gpt2";

  std::string preset = "gpt2";  // gpt2, gpt2-medium, gpt2-large, gpt2-xl: sizes where not given
  int64_t vocab_size = 0;       // 0: the tokenizer's
  int64_t n_positions = 1024;   // longest sequence
  int64_t n_embd = 768;
  int64_t n_layer = 12;
  int64_t n_head = 12;
  int64_t n_inner = 0;                // width of the feed-forward layer; 0: 4 n_embd
  bool bias = true;                   // of linear layers and norms
  double dropout = 0;                 // of embeddings and of what the two branches of a block add
  std::string positions = "learned";  // or "rope"
  double rope_theta = 10000;
  std::string activation = "gelu_new";  // GELU by tanh, as published; "gelu": exact, as nanoGPT
  std::string attention = "auto";       // see find_attention()
  double layer_norm_epsilon = 1e-5;
  std::string layers = "scan";  // or "unroll"

  Status apply_preset(const std::string& name);
  SequenceLength length() const { return {n_positions, "n_positions"}; }
};

template <class V>
void bind(V& v, Gpt2Config& c) {
  v("preset", c.preset, one_of({"gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl"}));
  v("vocab_size", c.vocab_size, at_least(0));
  v("n_positions", c.n_positions, at_least(2));
  v("n_embd", c.n_embd, at_least(1));
  v("n_layer", c.n_layer, at_least(1));
  v("n_head", c.n_head, at_least(1));
  v("n_inner", c.n_inner, at_least(0));
  v("bias", c.bias);
  v("dropout", c.dropout, at_least(0), less_than(1));
  v("positions", c.positions, one_of({"learned", "rope"}));
  v("rope_theta", c.rope_theta, greater_than(0));
  v("activation", c.activation, one_of({"gelu_new", "gelu"}));
  v("attention", c.attention, not_empty());
  v("layer_norm_epsilon", c.layer_norm_epsilon, greater_than(0));
  v("layers", c.layers, one_of({"scan", "unroll"}));
}

// Throws Error naming the key where the sizes do not fit together.
std::unique_ptr<LanguageModel> make_model(const Gpt2Config& config);

// Fills `out` from a Hugging Face config.json. Dropout stays 0: training from such weights sets its
// own. kUnimplemented names a key whose value asks for what this model is not.
Status read_hf_config(const nlohmann::json& config, Gpt2Config& out);
// kUnimplemented for a model that transformers' GPT-2 cannot be: rotary positions.
Result<nlohmann::json> hf_config(const Gpt2Config& config, int64_t vocab_size);

}  // namespace espalier
