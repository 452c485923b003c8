// GPT-2's presets, and its config as Hugging Face's transformers write it.
#include <nlohmann/json.hpp>

#include "espalier/models/gpt2.h"

namespace espalier {
namespace {

using nlohmann::json;

Failure wrong(const std::string& message) { return {Code::kInvalidArgument, message}; }

Failure cannot(const std::string& key, const json& value, const std::string& instead) {
  return {Code::kUnimplemented,
          "config.json has \"" + key + "\": " + value.dump() + "; only " + instead + " is known"};
}

Status read_size(const json& config, const char* key, int64_t& out) {
  const auto found = config.find(key);
  if (found == config.end()) return wrong(std::string("config.json lacks \"") + key + '"');
  if (!found->is_number_integer() || found->get<int64_t>() < 1) {
    return wrong(std::string("config.json has \"") + key + "\": " + found->dump() +
                 "; it must be an integer, at least 1");
  }
  out = found->get<int64_t>();
  return {};
}

}  // namespace

// Sizes: Radford et al. (2019), table 2, and the published config.json files.
Status Gpt2Config::apply_preset(const std::string& name) {
  struct Sizes {
    std::string_view name;
    int64_t layers, heads, width;
  };
  constexpr Sizes kPresets[] = {{"gpt2", 12, 12, 768},
                                {"gpt2-medium", 24, 16, 1024},
                                {"gpt2-large", 36, 20, 1280},
                                {"gpt2-xl", 48, 25, 1600}};
  for (const Sizes& sizes : kPresets) {
    if (sizes.name != name) continue;
    preset = name;
    n_layer = sizes.layers;
    n_head = sizes.heads;
    n_embd = sizes.width;
    n_positions = 1024;
    return {};
  }
  return wrong("model.preset = \"" + name +
               "\" is not known; gpt2 has gpt2, gpt2-medium, gpt2-large and gpt2-xl");
}

Status read_hf_config(const json& config, Gpt2Config& out) {
  ESPALIER_TRY(read_size(config, "vocab_size", out.vocab_size));
  ESPALIER_TRY(
      read_size(config, config.contains("n_positions") ? "n_positions" : "n_ctx", out.n_positions));
  ESPALIER_TRY(read_size(config, "n_embd", out.n_embd));
  ESPALIER_TRY(read_size(config, "n_layer", out.n_layer));
  ESPALIER_TRY(read_size(config, "n_head", out.n_head));
  out.n_inner = 0;
  if (config.contains("n_inner") && !config["n_inner"].is_null()) {
    ESPALIER_TRY(read_size(config, "n_inner", out.n_inner));
  }
  const json epsilon = config.value("layer_norm_epsilon", json(1e-5));
  if (!epsilon.is_number() || epsilon.get<double>() <= 0) {
    return wrong("config.json has \"layer_norm_epsilon\": " + epsilon.dump() +
                 "; it must be a number above 0");
  }
  out.layer_norm_epsilon = epsilon.get<double>();

  const json activation = config.value("activation_function", json("gelu_new"));
  const bool by_tanh = activation == "gelu_new" || activation == "gelu_pytorch_tanh";
  if (!by_tanh && activation != "gelu") {
    return cannot("activation_function", activation, "\"gelu_new\" and \"gelu\"");
  }
  out.activation = by_tanh ? "gelu_new" : "gelu";
  out.bias = true;  // such folders always have them
  out.positions = "learned";
  const std::pair<const char*, bool> needed[] = {{"tie_word_embeddings", true},
                                                 {"scale_attn_weights", true},
                                                 {"scale_attn_by_inverse_layer_idx", false},
                                                 {"add_cross_attention", false}};
  for (const auto& [key, value] : needed) {
    const json given = config.value(key, json(value));
    if (given != json(value)) return cannot(key, given, json(value).dump());
  }
  return {};
}

Result<json> hf_config(const Gpt2Config& c, int64_t vocab_size) {
  if (c.positions != "learned") {
    return Failure{Code::kUnimplemented,
                   "a gpt2 with model.positions = \"" + c.positions +
                       "\" cannot be exported: transformers' GPT-2 has learned positions only"};
  }
  return json{{"model_type", "gpt2"},
              {"architectures", {"GPT2LMHeadModel"}},
              {"vocab_size", vocab_size},
              {"n_positions", c.n_positions},
              {"n_ctx", c.n_positions},
              {"n_embd", c.n_embd},
              {"n_layer", c.n_layer},
              {"n_head", c.n_head},
              {"n_inner", c.n_inner > 0 ? json(c.n_inner) : json(nullptr)},
              {"activation_function", c.activation},
              {"layer_norm_epsilon", c.layer_norm_epsilon},
              {"resid_pdrop", c.dropout},
              {"embd_pdrop", c.dropout},
              {"attn_pdrop", 0.0},
              {"initializer_range", 0.02},
              {"tie_word_embeddings", true},
              {"scale_attn_weights", true},
              {"torch_dtype", "float32"}};
}

}  // namespace espalier
