#include "espalier/models/model_config.h"

#include <nlohmann/json.hpp>

#include "espalier/models/gpt2.h"
#include "espalier/models/llama.h"
#include "espalier/models/minigpt.h"

namespace espalier {
namespace {

struct ModelHead {
  std::string name;
};
template <class V>
void bind(V& v, ModelHead& c) {
  v("name", c.name);
}

struct PresetHead {
  std::string preset;
};
template <class V>
void bind(V& v, PresetHead& c) {
  v("preset", c.preset);
}

// Adapts a plain struct that has kName, bind(), vocab_size, apply_preset(), length() and
// make_model() to ModelConfig.
template <class C>
class Adapted : public ModelConfig {
 public:
  std::string_view name() const override { return C::kName; }
  Status read(Recipe& recipe) override {
    PresetHead head;
    ModelHead known;
    ESPALIER_TRY(read_part(recipe, "model", known, head));
    if (!head.preset.empty()) ESPALIER_TRY(config_.apply_preset(head.preset));
    return read_table(recipe, "model", config_);
  }
  void write(RecipeWriter& writer) const override {
    writer.table("model", ModelHead{std::string(C::kName)}, config_);
  }
  int64_t max_len() const override { return config_.length().value; }
  std::string_view max_len_key() const override { return config_.length().key; }
  int64_t vocab_size() const override { return config_.vocab_size; }
  std::unique_ptr<LanguageModel> make(int64_t tokenizer_vocab) const override {
    C c = config_;
    if (c.vocab_size == 0) c.vocab_size = tokenizer_vocab;
    return make_model(c);
  }

 protected:
  C config_;
};

class MiniGpt final : public Adapted<MiniGptConfig> {
 public:
  std::unique_ptr<ModelConfig> clone() const override { return std::make_unique<MiniGpt>(*this); }
};

class Gpt2 final : public Adapted<Gpt2Config> {
 public:
  std::unique_ptr<ModelConfig> clone() const override { return std::make_unique<Gpt2>(*this); }
  Status read_hf(const nlohmann::json& config) override { return read_hf_config(config, config_); }
  Result<nlohmann::json> to_hf(int64_t vocab_size) const override {
    return hf_config(config_, vocab_size);
  }
  // Files saved from the model without its output layer lack the prefix.
  std::vector<std::string> hf_names(const std::string& param) const override {
    return {param, param.substr(std::string_view("transformer.").size())};
  }
  // Causal masks that old versions stored, and the output layer, which is the token embedding.
  std::vector<std::string> hf_ignored() const override {
    return {"*.attn.bias", "*.attn.masked_bias", "lm_head.weight"};
  }
  std::vector<std::pair<std::string, std::string>> hf_copies() const override {
    return {{"lm_head.weight", "transformer.wte.weight"}};
  }
};

class Llama3 final : public Adapted<Llama3Config> {
 public:
  std::unique_ptr<ModelConfig> clone() const override { return std::make_unique<Llama3>(*this); }
  Status read_hf(const nlohmann::json& config) override { return read_hf_config(config, config_); }
  Result<nlohmann::json> to_hf(int64_t vocab_size) const override {
    return hf_config(config_, vocab_size);
  }
  std::vector<std::string> hf_names(const std::string& param) const override {
    return llama3_hf_names(param);
  }
  // Rotary frequencies that some versions stored, and an output layer that is the embedding.
  std::vector<std::string> hf_ignored() const override {
    std::vector<std::string> out = {"*rotary_emb.inv_freq", "rope.freqs", "freqs_cis"};
    for (const auto& [name, param] : hf_copies()) out.push_back(name);
    return out;
  }
  std::vector<std::pair<std::string, std::string>> hf_copies() const override {
    if (!config_.tie_embeddings) return {};
    return {{"lm_head.weight", "model.embed_tokens.weight"},
            {"output.weight", "model.embed_tokens.weight"}};
  }
  int64_t hf_rotary_pairs(const std::string& name) const override {
    return has_rotary_pairs(name) ? config_.head_width() : 0;
  }
};

template <class M>
std::unique_ptr<ModelConfig> make() {
  return std::make_unique<M>();
}

struct KnownModel {
  std::string_view name, hf_type;
  std::unique_ptr<ModelConfig> (*make)();
};
constexpr KnownModel kModels[] = {{"minigpt", "", make<MiniGpt>},
                                  {"gpt2", "gpt2", make<Gpt2>},
                                  {"llama3", "llama", make<Llama3>}};

Failure no_hf_form(std::string_view model) {
  return {Code::kUnimplemented, "model '" + std::string(model) +
                                    "' has no Hugging Face form; those of gpt2 and llama3 have"};
}

}  // namespace

Status ModelConfig::read_hf(const nlohmann::json&) { return no_hf_form(name()); }

Result<nlohmann::json> ModelConfig::to_hf(int64_t) const { return no_hf_form(name()); }

std::vector<std::string> model_names() {
  std::vector<std::string> out;
  for (const KnownModel& entry : kModels) out.emplace_back(entry.name);
  return out;
}

std::unique_ptr<ModelConfig> make_model_config(const std::string& name) {
  std::string known;
  for (const KnownModel& entry : kModels) {
    if (entry.name == name) return entry.make();
    known += (known.empty() ? "" : ", ") + std::string(entry.name);
  }
  throw Error("model.name = \"" + name + "\" is not known; there are " + known,
              Code::kInvalidArgument);
}

Result<std::unique_ptr<ModelConfig>> model_config_from_hf(const nlohmann::json& config) {
  nlohmann::json type = config.is_object() ? config.value("model_type", nlohmann::json()) : config;
  if (type.is_null() && is_llama_params(config)) type = "llama";
  std::string known;
  for (const KnownModel& entry : kModels) {
    if (entry.hf_type.empty()) continue;
    known += (known.empty() ? "" : ", ") + std::string(entry.hf_type);
    if (!type.is_string() || type.get<std::string>() != entry.hf_type) continue;
    std::unique_ptr<ModelConfig> out = entry.make();
    ESPALIER_TRY(out->read_hf(config));
    return out;
  }
  return Failure{Code::kUnimplemented,
                 "config.json has model_type " + type.dump() + "; known are " + known};
}

}  // namespace espalier
