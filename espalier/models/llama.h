// Llama 3 (Dubey et al. 2024, "The Llama 3 Herd of Models"): a pre-norm transformer with RMSNorm,
// rotary positions, grouped-query attention and SwiGLU, without biases.
//
// Parameter names and shapes are Hugging Face's (model.layers.N.self_attn.q_proj.weight, linear
// layers as (out, in)), sizes have torchtitan's and Meta's names. Files with torchtitan's names
// (layers.N.attention.wq.weight) are read too: see llama3_hf_names.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "espalier/config/fields.h"
#include "espalier/models/language_model.h"

namespace espalier {

// Hugging Face's table of this name; "default" is none. See Llama3Scaling in nn/rope.h.
struct Llama3RopeScaling {
  std::string rope_type = "llama3";
  double factor = 8;
  double low_freq_factor = 1;
  double high_freq_factor = 4;
  int64_t original_max_position_embeddings = 8192;
};

struct Llama3Config {
  static constexpr std::string_view kName = "llama3";

  std::string preset = "debug";  // debug, 1B, 3B, 8B, 70B, 405B: sizes where not given
  int64_t vocab_size = 0;        // 0: the tokenizer's
  int64_t max_seq_len = 2048;    // longest sequence
  int64_t dim = 256;
  int64_t n_layers = 6;
  int64_t n_heads = 16;
  int64_t n_kv_heads = 0;  // heads of keys and values, a divisor of n_heads; 0: n_heads
  int64_t head_dim = 0;    // width of a head; 0: dim / n_heads
  // Width of the feed-forward layer; 0: 8 dim / 3, times ffn_dim_multiplier, rounded down each
  // time, then up to a multiple of multiple_of.
  int64_t hidden_dim = 0;
  double ffn_dim_multiplier = 1;
  int64_t multiple_of = 256;
  double norm_eps = 1e-5;
  double rope_theta = 500000;
  Llama3RopeScaling rope_scaling;
  bool tie_embeddings = false;      // the token embedding is the output layer too
  std::string attention = "dense";  // or "flash", or one registered by the program
  std::string layers = "scan";      // or "unroll"

  Status apply_preset(const std::string& name);
  SequenceLength length() const { return {max_seq_len, "max_seq_len"}; }

  // What stands for a size that is 0.
  int64_t kv_heads() const { return n_kv_heads > 0 ? n_kv_heads : n_heads; }
  int64_t head_width() const { return head_dim > 0 ? head_dim : dim / n_heads; }
  int64_t ffn_width() const;
};

template <class V>
void bind(V& v, Llama3RopeScaling& c) {
  v("rope_type", c.rope_type, one_of({"llama3", "default"}));
  v("factor", c.factor, greater_than(0));
  v("low_freq_factor", c.low_freq_factor, greater_than(0));
  v("high_freq_factor", c.high_freq_factor, greater_than(0));
  v("original_max_position_embeddings", c.original_max_position_embeddings, at_least(1));
}

template <class V>
void bind(V& v, Llama3Config& c) {
  v("preset", c.preset, one_of({"debug", "1B", "3B", "8B", "70B", "405B"}));
  v("vocab_size", c.vocab_size, at_least(0));
  v("max_seq_len", c.max_seq_len, at_least(2));
  v("dim", c.dim, at_least(1));
  v("n_layers", c.n_layers, at_least(1));
  v("n_heads", c.n_heads, at_least(1));
  v("n_kv_heads", c.n_kv_heads, at_least(0));
  v("head_dim", c.head_dim, at_least(0));
  v("hidden_dim", c.hidden_dim, at_least(0));
  v("ffn_dim_multiplier", c.ffn_dim_multiplier, greater_than(0));
  v("multiple_of", c.multiple_of, at_least(1));
  v("norm_eps", c.norm_eps, greater_than(0));
  v("rope_theta", c.rope_theta, greater_than(0));
  v("tie_embeddings", c.tie_embeddings);
  v("attention", c.attention, not_empty());
  v("layers", c.layers, one_of({"scan", "unroll"}));
  v.sub_table("rope_scaling", c.rope_scaling);
}

// Throws Error naming the key where the sizes do not fit together.
std::unique_ptr<LanguageModel> make_model(const Llama3Config& config);

// Fills `out` from a Hugging Face config.json, or from Meta's params.json. kUnimplemented names a
// key whose value asks for what this model is not.
Status read_hf_config(const nlohmann::json& config, Llama3Config& out);
Result<nlohmann::json> hf_config(const Llama3Config& config, int64_t vocab_size);
// Whether a file is Meta's params.json.
bool is_llama_params(const nlohmann::json& config);

// {Hugging Face's name, torchtitan's and Meta's} of a parameter.
std::vector<std::string> llama3_hf_names(const std::string& param);
// Whether a tensor of that name holds heads whose rotary pairs lie side by side, as in torchtitan's
// and Meta's wq and wk.
bool has_rotary_pairs(std::string_view name);

}  // namespace espalier
