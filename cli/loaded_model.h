// LoadedModel: a model with its tokenizer and parameters on the devices, for the commands that use
// a trained one.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "espalier/runtime/device_array.h"
#include "espalier/text/tokenizer.h"
#include "espalier/train/config.h"

namespace espalier {

// Move-only.
struct LoadedModel {
  RunConfig config;  // overrides applied
  std::shared_ptr<const Tokenizer> tokenizer;
  std::shared_ptr<Runtime> runtime;
  ShardingRules rules;
  std::unique_ptr<LanguageModel> model;
  std::vector<DeviceArray> params;    // in the order of model->params()
  DType dtype = DType::kF32;          // to compute in
  std::vector<std::string> warnings;  // such as of a damaged checkpoint that was passed over

  std::vector<LayoutPtr> layouts() const;
  std::vector<DeviceArray*> pointers();  // for Program::run; to members of `params`
};

// The model of a training run's folder from its checkpoint `which` ("latest", "best" or a step).
// `overrides` change keys of the run's recipe, as --set does. Unless they give mesh.axes, the model
// is put on one device, whatever mesh it was trained on. kNotFound without a run there. Throws
// Error where model, mesh and rules do not fit together.
Result<LoadedModel> load_run(const std::filesystem::path& run, const std::string& which,
                             const std::vector<std::string>& overrides);

// The same of a Hugging Face folder, or of a published model that `espalier prepare weights` put
// into train.weights_dir, without a tokenizer. `overrides` change the defaults of a recipe whose
// model its config.json gives.
Result<LoadedModel> load_hf_model(const std::string& folder_or_name,
                                  const std::vector<std::string>& overrides);
// With a tokenizer: `tokenizer` as load_tokenizer() takes it; where it is empty the folder's
// tokenizer.txt, which `espalier export` writes, its tokenizer.json or tokenizer.model, else gpt2
// for a model of its 50257 ids. kInvalidArgument where there is none of these or the tokenizer has
// more ids than the model.
Result<LoadedModel> load_hf(const std::string& folder_or_name, const std::string& tokenizer,
                            const std::vector<std::string>& overrides);

}  // namespace espalier
