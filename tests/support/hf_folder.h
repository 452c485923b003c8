// Small models with random weights, as folders of Hugging Face's form.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "espalier/base/host_array.h"
#include "espalier/models/gpt2.h"
#include "espalier/models/llama.h"

namespace espalier::test {

// Tensors of a safetensors file by name.
using TensorMap = std::map<std::string, HostArray>;

// Every parameter as it is stored: normally distributed, of deviations that give all parts of the
// model a say; norms' weights around 1, biases around 0.
TensorMap random_weights(const LanguageModel& model, uint32_t seed);
TensorMap random_weights(const Gpt2Config& config, uint32_t seed);
TensorMap random_weights(const Llama3Config& config, uint32_t seed);
TensorMap read_tensors(const std::filesystem::path& path);
void write_tensors(const std::filesystem::path& path, const TensorMap& tensors);
// config.json and model.safetensors.
void write_hf_folder(const std::filesystem::path& folder, const Gpt2Config& config,
                     const TensorMap& tensors);
void write_hf_folder(const std::filesystem::path& folder, const Llama3Config& config,
                     const TensorMap& tensors);

}  // namespace espalier::test
