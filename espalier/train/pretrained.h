// Published weights, as Hugging Face's transformers store them, onto a mesh.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "espalier/mesh/sharding_rules.h"
#include "espalier/models/model_config.h"
#include "espalier/runtime/device_array.h"

namespace espalier {

// A folder that is there is itself; the name of a published model (gpt2, gpt2-medium, ...) is
// WEIGHTS_DIR/NAME, where `espalier prepare weights` puts it. kNotFound says which of both is
// missing and how to get it.
Result<std::filesystem::path> pretrained_folder(const std::string& folder_or_name,
                                                const std::filesystem::path& weights_dir);

// The file in such a folder that describes its model: config.json, or where there is none Meta's
// params.json. kNotFound where both are missing.
Result<std::filesystem::path> model_description(const std::filesystem::path& folder);

// The parameters in the order of `specs`, each read from the mapped files straight into its pieces
// on the devices, any floating type converted to float32. All names must be of one kind of
// config.hf_names(). kInvalidArgument lists unknown, missing and misshapen tensors, or names a
// tensor that should repeat a parameter and does not; see WeightsFolder for damaged files. Throws
// Error where the parameters do not fit the mesh.
Result<std::vector<DeviceArray>> load_pretrained(const std::shared_ptr<Runtime>& runtime,
                                                 const ModelConfig& config, const ParamSpecs& specs,
                                                 const ShardingRules& rules,
                                                 const std::filesystem::path& folder);

}  // namespace espalier
