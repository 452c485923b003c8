// Llama 3's presets; its config as Hugging Face's transformers and as Meta write it; the names of
// its parameters in their files.
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "espalier/models/llama.h"

namespace espalier {
namespace {

using nlohmann::json;

Failure wrong(const std::string& message) { return {Code::kInvalidArgument, message}; }

// Reads the keys of one file. A key that is missing or null keeps what was there, unless it is
// needed.
class JsonReader {
 public:
  JsonReader(const json& config, std::string file) : config_(config), file_(std::move(file)) {}

  bool has(const char* key) const { return config_.contains(key) && !config_[key].is_null(); }
  Status need(const char* key, int64_t& out) const {
    if (!has(key)) return wrong(file_ + " lacks \"" + key + '"');
    return take(key, out);
  }
  Status take(const char* key, int64_t& out) const {
    if (!has(key)) return {};
    const json& found = config_[key];
    if (!found.is_number_integer() || found.get<int64_t>() < 1) {
      return bad(key, "an integer, at least 1");
    }
    out = found.get<int64_t>();
    return {};
  }
  Status take(const char* key, double& out) const {
    if (!has(key)) return {};
    const json& found = config_[key];
    if (!found.is_number() || !(found.get<double>() > 0)) return bad(key, "a number above 0");
    out = found.get<double>();
    return {};
  }
  Status take(const char* key, bool& out) const {
    if (!has(key)) return {};
    if (!config_[key].is_boolean()) return bad(key, "true or false");
    out = config_[key].get<bool>();
    return {};
  }
  // A key that may be there with this value only.
  Status only(const char* key, const json& value) const {
    if (!has(key) || config_[key] == value) return {};
    return Failure{Code::kUnimplemented, file_ + " has \"" + key + "\": " + config_[key].dump() +
                                             "; only " + value.dump() + " is known"};
  }

 private:
  Failure bad(const char* key, const std::string& needed) const {
    return wrong(file_ + " has \"" + key + "\": " + config_[key].dump() + "; it must be " + needed);
  }
  const json& config_;
  std::string file_;
};

// "rope_scaling" of transformers 4 or "rope_parameters" of transformers 5, which holds the base
// too.
Status read_rope(const json& config, Llama3Config& out) {
  out.rope_scaling = {};
  out.rope_scaling.rope_type = "default";
  const char* key = config.contains("rope_parameters") ? "rope_parameters" : "rope_scaling";
  const json table = config.value(key, json());
  if (table.is_null()) return {};
  if (!table.is_object()) return wrong(std::string("config.json: \"") + key + "\" is no table");
  const JsonReader rope(table, std::string("config.json: \"") + key + '"');
  ESPALIER_TRY(rope.take("rope_theta", out.rope_theta));
  const json type = table.value("rope_type", table.value("type", json("default")));
  if (type == "default") return {};
  if (type != "llama3") {
    return Failure{Code::kUnimplemented, std::string("config.json: \"") + key +
                                             "\" has rope_type " + type.dump() +
                                             "; only \"default\" and \"llama3\" are known"};
  }
  Llama3RopeScaling& s = out.rope_scaling;
  s.rope_type = "llama3";
  for (const char* name :
       {"factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"}) {
    if (!table.contains(name)) {
      return wrong(std::string("config.json: \"") + key + "\" lacks \"" + name + '"');
    }
  }
  ESPALIER_TRY(rope.take("factor", s.factor));
  ESPALIER_TRY(rope.take("low_freq_factor", s.low_freq_factor));
  ESPALIER_TRY(rope.take("high_freq_factor", s.high_freq_factor));
  return rope.take("original_max_position_embeddings", s.original_max_position_embeddings);
}

// Meta's params.json. It names no length and no factor: those are the published models'.
Status read_params(const json& config, Llama3Config& out) {
  const JsonReader in(config, "params.json");
  out = {};
  ESPALIER_TRY(in.need("vocab_size", out.vocab_size));
  ESPALIER_TRY(in.need("dim", out.dim));
  ESPALIER_TRY(in.need("n_layers", out.n_layers));
  ESPALIER_TRY(in.need("n_heads", out.n_heads));
  ESPALIER_TRY(in.take("n_kv_heads", out.n_kv_heads));
  ESPALIER_TRY(in.take("head_dim", out.head_dim));
  ESPALIER_TRY(in.take("ffn_dim_multiplier", out.ffn_dim_multiplier));
  ESPALIER_TRY(in.take("multiple_of", out.multiple_of));
  ESPALIER_TRY(in.take("norm_eps", out.norm_eps));
  ESPALIER_TRY(in.take("rope_theta", out.rope_theta));
  bool scaled = false;
  ESPALIER_TRY(in.take("use_scaled_rope", scaled));
  out.rope_scaling.rope_type = scaled ? "llama3" : "default";
  const bool small = (out.dim == 2048 && out.n_layers == 16) ||  // 3.2's 1B and 3B
                     (out.dim == 3072 && out.n_layers == 28);
  out.rope_scaling.factor = small ? 32 : 8;
  ESPALIER_TRY(in.take("rope_scaling_factor", out.rope_scaling.factor));
  out.max_seq_len = scaled ? 131072 : 8192;
  return in.take("max_seq_len", out.max_seq_len);
}

}  // namespace

int64_t Llama3Config::ffn_width() const {
  if (hidden_dim > 0) return hidden_dim;
  const int64_t two_thirds = 8 * dim / 3;
  const auto wanted = static_cast<int64_t>(ffn_dim_multiplier * static_cast<double>(two_thirds));
  return (wanted + multiple_of - 1) / multiple_of * multiple_of;
}

// Sizes: Meta's params.json and the config.json of Llama 3.2 1B and 3B, and of Llama 3.1 8B, 70B
// and 405B; torchtitan's debugmodel.
Status Llama3Config::apply_preset(const std::string& name) {
  struct Sizes {
    std::string_view name;
    int64_t dim, layers, heads, kv_heads;
    double multiplier;
    int64_t multiple_of;
    bool tied;
    double rope_factor;
  };
  constexpr Sizes kPresets[] = {{"debug", 256, 6, 16, 0, 1, 256, false, 8},
                                {"1B", 2048, 16, 32, 8, 1.5, 256, true, 32},
                                {"3B", 3072, 28, 24, 8, 1, 256, true, 32},
                                {"8B", 4096, 32, 32, 8, 1.3, 1024, false, 8},
                                {"70B", 8192, 80, 64, 8, 1.3, 4096, false, 8},
                                {"405B", 16384, 126, 128, 8, 1.2, 4096, false, 8}};
  for (const Sizes& sizes : kPresets) {
    if (sizes.name != name) continue;
    const bool published = name != "debug";
    preset = name;
    dim = sizes.dim;
    n_layers = sizes.layers;
    n_heads = sizes.heads;
    n_kv_heads = sizes.kv_heads;
    head_dim = 0;
    hidden_dim = 0;
    ffn_dim_multiplier = sizes.multiplier;
    multiple_of = sizes.multiple_of;
    tie_embeddings = sizes.tied;
    rope_scaling = {};
    rope_scaling.factor = sizes.rope_factor;
    vocab_size = published ? 128256 : 0;
    max_seq_len = published ? 131072 : 2048;
    return {};
  }
  return wrong("model.preset = \"" + name +
               "\" is not known; llama3 has debug, 1B, 3B, 8B, 70B and 405B");
}

Status read_hf_config(const json& config, Llama3Config& out) {
  Llama3Config read;
  if (is_llama_params(config)) {
    ESPALIER_TRY(read_params(config, read));
  } else {
    const JsonReader in(config, "config.json");
    ESPALIER_TRY(in.need("vocab_size", read.vocab_size));
    ESPALIER_TRY(in.need("max_position_embeddings", read.max_seq_len));
    ESPALIER_TRY(in.need("hidden_size", read.dim));
    ESPALIER_TRY(in.need("num_hidden_layers", read.n_layers));
    ESPALIER_TRY(in.need("num_attention_heads", read.n_heads));
    ESPALIER_TRY(in.need("intermediate_size", read.hidden_dim));
    ESPALIER_TRY(in.take("num_key_value_heads", read.n_kv_heads));
    ESPALIER_TRY(in.take("head_dim", read.head_dim));
    read.norm_eps = 1e-6;  // transformers' own defaults
    read.rope_theta = 10000;
    ESPALIER_TRY(in.take("rms_norm_eps", read.norm_eps));
    ESPALIER_TRY(in.take("rope_theta", read.rope_theta));
    ESPALIER_TRY(in.take("tie_word_embeddings", read.tie_embeddings));
    ESPALIER_TRY(read_rope(config, read));
    ESPALIER_TRY(in.only("hidden_act", "silu"));
    ESPALIER_TRY(in.only("attention_bias", false));
    ESPALIER_TRY(in.only("mlp_bias", false));
  }
  read.preset = out.preset;
  read.attention = out.attention;
  read.layers = out.layers;
  out = read;
  return {};
}

bool is_llama_params(const json& config) {
  return config.is_object() && !config.contains("model_type") && config.contains("dim");
}

Result<json> hf_config(const Llama3Config& c, int64_t vocab_size) {
  json rope = {{"rope_type", c.rope_scaling.rope_type}};
  if (c.rope_scaling.rope_type == "llama3") {
    rope["factor"] = c.rope_scaling.factor;
    rope["low_freq_factor"] = c.rope_scaling.low_freq_factor;
    rope["high_freq_factor"] = c.rope_scaling.high_freq_factor;
    rope["original_max_position_embeddings"] = c.rope_scaling.original_max_position_embeddings;
  }
  // transformers 4 reads rope_theta and rope_scaling, and 5 takes them over.
  return json{{"model_type", "llama"},
              {"architectures", {"LlamaForCausalLM"}},
              {"vocab_size", vocab_size},
              {"max_position_embeddings", c.max_seq_len},
              {"hidden_size", c.dim},
              {"intermediate_size", c.ffn_width()},
              {"num_hidden_layers", c.n_layers},
              {"num_attention_heads", c.n_heads},
              {"num_key_value_heads", c.kv_heads()},
              {"head_dim", c.head_width()},
              {"hidden_act", "silu"},
              {"rms_norm_eps", c.norm_eps},
              {"rope_theta", c.rope_theta},
              {"rope_scaling", c.rope_scaling.rope_type == "llama3" ? rope : json(nullptr)},
              {"tie_word_embeddings", c.tie_embeddings},
              {"attention_bias", false},
              {"attention_dropout", 0.0},
              {"mlp_bias", false},
              {"initializer_range", 0.02},
              {"torch_dtype", "float32"}};
}

std::vector<std::string> llama3_hf_names(const std::string& param) {
  constexpr std::pair<std::string_view, std::string_view> kNames[] = {
      {"model.", ""},
      {"embed_tokens.", "tok_embeddings."},
      {"lm_head.", "output."},
      {"self_attn.q_proj.", "attention.wq."},
      {"self_attn.k_proj.", "attention.wk."},
      {"self_attn.v_proj.", "attention.wv."},
      {"self_attn.o_proj.", "attention.wo."},
      {"mlp.gate_proj.", "feed_forward.w1."},
      {"mlp.up_proj.", "feed_forward.w3."},
      {"mlp.down_proj.", "feed_forward.w2."},
      {"input_layernorm.", "attention_norm."},
      {"post_attention_layernorm.", "ffn_norm."}};
  std::string theirs = param;
  for (const auto& [hf, titan] : kNames) {
    if (const size_t at = theirs.find(hf); at != std::string::npos) {
      theirs.replace(at, hf.size(), titan);
    }
  }
  return {param, theirs};
}

bool has_rotary_pairs(std::string_view name) {
  return name.ends_with(".attention.wq.weight") || name.ends_with(".attention.wk.weight");
}

}  // namespace espalier
