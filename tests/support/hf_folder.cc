#include "tests/support/hf_folder.h"

#include <nlohmann/json.hpp>
#include <random>

#include "espalier/checkpoint/safetensors.h"
#include "espalier/train/state.h"

namespace espalier::test {

TensorMap random_weights(const Gpt2Config& config, uint32_t seed) {
  std::mt19937 bits(seed);
  const auto model = make_model(config);
  TensorMap out;
  for (const ParamSpec& spec : model->params()) {
    const bool norm = spec.name.find("ln_") != std::string::npos;
    const bool weight = spec.name.ends_with("weight");
    std::normal_distribution<float> draw(norm && weight ? 1.0f : 0.0f, 0.1f);
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
  std::filesystem::create_directories(folder);
  const nlohmann::json json = hf_config(config, config.vocab_size).value_or_throw();
  write_file(folder / "config.json", json.dump(2)).value_or_throw();
  write_tensors(folder / "model.safetensors", tensors);
}

}  // namespace espalier::test
