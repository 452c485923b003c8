#include "tests/support/hf_folder.h"

#include <nlohmann/json.hpp>
#include <random>

#include "espalier/checkpoint/safetensors.h"
#include "espalier/train/state.h"

namespace espalier::test {

namespace {

void write_folder(const std::filesystem::path& folder, const nlohmann::json& config,
                  const TensorMap& tensors) {
  std::filesystem::create_directories(folder);
  write_file(folder / "config.json", config.dump(2)).value_or_throw();
  write_tensors(folder / "model.safetensors", tensors);
}

}  // namespace

TensorMap random_weights(const Gpt2Config& config, uint32_t seed) {
  return random_weights(*make_model(config), seed);
}

TensorMap random_weights(const Llama3Config& config, uint32_t seed) {
  return random_weights(*make_model(config), seed);
}

TensorMap random_weights(const LanguageModel& model, uint32_t seed) {
  std::mt19937 bits(seed);
  TensorMap out;
  for (const ParamSpec& spec : model.params()) {
    const bool norm = spec.kind == ParamKind::kVector && spec.name.ends_with("weight");
    std::normal_distribution<float> draw(norm ? 1.0f : 0.0f, 0.1f);
    for (const CheckpointTensor& entry : stored_tensors(stored_param(spec))) {
      HostArray array(DType::kF32, entry.tensor.dims);
      for (float& x : array.as<float>()) x = draw(bits);
      out[entry.tensor.name] = array;
    }
  }
  return out;
}

TensorMap read_tensors(const std::filesystem::path& path) {
  const SafetensorsFile file = SafetensorsFile::open(path).value_or_throw();
  TensorMap out;
  for (const TensorInfo& tensor : file.tensors()) {
    out[tensor.name] = file.read(tensor.name).value_or_throw();
  }
  return out;
}

void write_tensors(const std::filesystem::path& path, const TensorMap& tensors) {
  std::vector<TensorInfo> infos;
  for (const auto& [name, array] : tensors) infos.push_back({name, array.dtype(), array.dims()});
  SafetensorsWriter writer =
      SafetensorsWriter::create(path, infos, {{"format", "pt"}}).value_or_throw();
  for (const auto& [name, array] : tensors) writer.write(name, array).value_or_throw();
  writer.finish().value_or_throw();
}

void write_hf_folder(const std::filesystem::path& folder, const Gpt2Config& config,
                     const TensorMap& tensors) {
  write_folder(folder, hf_config(config, config.vocab_size).value_or_throw(), tensors);
}

void write_hf_folder(const std::filesystem::path& folder, const Llama3Config& config,
                     const TensorMap& tensors) {
  write_folder(folder, hf_config(config, config.vocab_size).value_or_throw(), tensors);
}

}  // namespace espalier::test
