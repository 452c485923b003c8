// ModelConfig: the [model] table of a recipe for one kind of model, and what a Hugging Face folder
// says of it.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "espalier/config/recipe.h"
#include "espalier/models/language_model.h"

namespace espalier {

// A value: copies are independent. Not thread-safe while it is being filled.
class ModelConfig {
 public:
  virtual ~ModelConfig() = default;
  virtual std::string_view name() const = 0;
  virtual std::unique_ptr<ModelConfig> clone() const = 0;

  // Fills itself from the [model] table, all of whose keys but `name` it binds. Where the recipe
  // names a preset, its sizes stand until a key of the recipe's own.
  virtual Status read(Recipe& recipe) = 0;
  virtual void write(RecipeWriter& writer) const = 0;

  // Longest sequence, and the recipe's key for it.
  virtual int64_t max_len() const = 0;
  virtual std::string_view max_len_key() const = 0;
  // 0: the tokenizer's, which make() gets.
  virtual int64_t vocab_size() const = 0;
  // Throws Error naming the key where the sizes do not fit together.
  virtual std::unique_ptr<LanguageModel> make(int64_t tokenizer_vocab) const = 0;

  // Takes over what a Hugging Face config.json (of llama3 also Meta's params.json) says.
  // kUnimplemented where the model has no such form or the file asks for what it cannot do;
  // kInvalidArgument where the file is wrong.
  virtual Status read_hf(const nlohmann::json& config);
  // config.json of a model with `vocab_size` ids. kUnimplemented as above.
  virtual Result<nlohmann::json> to_hf(int64_t vocab_size) const;
  // How a parameter of ours may be called in the files of such a folder, the usual name first; of
  // every parameter as many names in the same order: a folder's names are of one kind.
  virtual std::vector<std::string> hf_names(const std::string& param) const { return {param}; }
  // Patterns ('*': any characters) of tensors in such files that are no parameters.
  virtual std::vector<std::string> hf_ignored() const { return {}; }
  // Tensors in such files that repeat a parameter of ours: {name there, our parameter}. They are
  // among the ignored, and of no other values than the parameter.
  virtual std::vector<std::pair<std::string, std::string>> hf_copies() const { return {}; }
  // Where a tensor of that name in such files holds heads whose rotary pairs lie side by side
  // (checkpoint/rotary_pairs.h), the width of a head; else 0.
  virtual int64_t hf_rotary_pairs(const std::string& /*name*/) const { return 0; }
};

// Names that `model.name` may have.
std::vector<std::string> model_names();
// Throws Error, listing the names, where there is none of that name.
std::unique_ptr<ModelConfig> make_model_config(const std::string& name);
// The config that a config.json describes, by its "model_type", or Meta's params.json.
Result<std::unique_ptr<ModelConfig>> model_config_from_hf(const nlohmann::json& config);

}  // namespace espalier
