#include <fmt/format.h>

#include "cli/loaded_model.h"
#include "espalier/base/file.h"
#include "espalier/train/pretrained.h"

namespace espalier {
namespace fs = std::filesystem;
namespace {

constexpr int64_t kGpt2Vocabulary = 50257;

struct WeightsDir {
  std::string path = TrainConfig().weights_dir;
};
template <class V>
void bind(V& v, WeightsDir& c) {
  v("weights_dir", c.path, not_empty());
}

struct Folder {
  fs::path path;
  RunConfig config;
};

Result<Folder> open_folder(const std::string& folder_or_name,
                           const std::vector<std::string>& overrides) {
  // Where published models lie is itself a key of the recipe.
  ESPALIER_ASSIGN(Recipe recipe, Recipe::parse("", "the command line", overrides));
  WeightsDir dir;
  ESPALIER_TRY(read_part(recipe, "train", dir));
  Folder out;
  ESPALIER_ASSIGN(out.path, pretrained_folder(folder_or_name, dir.path));
  ESPALIER_ASSIGN(out.config, load_hf_run_config(out.path, overrides));
  return out;
}

Result<std::shared_ptr<const Tokenizer>> choose_tokenizer(const Folder& folder,
                                                          const std::string& name) {
  const int64_t vocab = folder.config.model->vocab_size();
  std::error_code none;
  fs::path stored;
  for (const char* file : {"tokenizer.txt", "tokenizer.json", "tokenizer.model"}) {
    if (stored.empty() && fs::exists(folder.path / file, none)) stored = folder.path / file;
  }
  std::shared_ptr<const Tokenizer> out;
  if (!name.empty()) {
    ESPALIER_ASSIGN(out, load_tokenizer(name));
  } else if (!stored.empty()) {
    ESPALIER_ASSIGN(out, load_tokenizer(stored.string()));
  } else if (vocab == kGpt2Vocabulary) {
    ESPALIER_ASSIGN(out, load_tokenizer("gpt2"));
  } else {
    return Failure{Code::kInvalidArgument,
                   fmt::format("no tokenizer is known for '{}', a model of {} ids without a "
                               "tokenizer.json; give one: --tokenizer NAME or FILE",
                               folder.path.string(), vocab)};
  }
  if (out->vocab_size() > vocab) {
    return Failure{
        Code::kInvalidArgument,
        fmt::format("the tokenizer {} has {} ids, but the model in '{}' has {}; give the "
                    "model's own: --tokenizer NAME or FILE",
                    out->name(), out->vocab_size(), folder.path.string(), vocab)};
  }
  return out;
}

Status load_weights(Folder folder, LoadedModel& out) {
  out.config = std::move(folder.config);
  out.model = out.config.make_model(0);
  ESPALIER_ASSIGN(out.runtime, Runtime::create(out.config.runtime_options()));
  if (!out.config.mesh.axes.empty()) out.rules = out.config.make_rules();
  out.dtype = out.config.compute_dtype();
  ESPALIER_ASSIGN(out.params, load_pretrained(out.runtime, *out.config.model, out.model->params(),
                                              out.rules, folder.path));
  return {};
}

}  // namespace

Result<LoadedModel> load_hf_model(const std::string& folder_or_name,
                                  const std::vector<std::string>& overrides) {
  ESPALIER_ASSIGN(Folder folder, open_folder(folder_or_name, overrides));
  LoadedModel out;
  ESPALIER_TRY(load_weights(std::move(folder), out));
  return out;
}

Result<LoadedModel> load_hf(const std::string& folder_or_name, const std::string& tokenizer,
                            const std::vector<std::string>& overrides) {
  ESPALIER_ASSIGN(Folder folder, open_folder(folder_or_name, overrides));
  LoadedModel out;
  ESPALIER_ASSIGN(out.tokenizer, choose_tokenizer(folder, tokenizer));
  ESPALIER_TRY(load_weights(std::move(folder), out));
  return out;
}

}  // namespace espalier
