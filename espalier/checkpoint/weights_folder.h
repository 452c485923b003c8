// Folders of weights as Hugging Face lays them out.
//
//   DIR/model.safetensors               all tensors, or
//   DIR/model.safetensors.index.json    {"metadata": {"total_size": BYTES},
//                                        "weight_map": {TENSOR: FILE, ...}}
//   DIR/model-00001-of-00002.safetensors, ...
//
// What else is there (config.json, a tokenizer) is the caller's.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/checkpoint/tensor_files.h"

namespace espalier {

// A folder open for reading, its files mapped into memory. Copies share the maps. Safe to read from
// several threads.
class WeightsFolder : public TensorSource {
 public:
  // Takes model.safetensors where both forms are there. kNotFound: no such folder, no weights in
  // it, or a missing shard; kUnimplemented: only pytorch_model.bin, a pickle; kDataLoss: a damaged
  // file, or shards that do not hold what the index says. The message names file and tensor.
  static Result<WeightsFolder> open(const std::filesystem::path& folder);

  const std::filesystem::path& folder() const { return folder_; }
  std::string where() const override { return folder_.string(); }
  const std::vector<TensorInfo>& tensors() const override { return files_.tensors(); }
  const TensorInfo* find(std::string_view name) const override { return files_.find(name); }
  Status read_view(std::string_view name, const Dims& view, const Dims& offset, const Dims& shape,
                   std::span<std::byte> out) const override;

 private:
  explicit WeightsFolder(std::filesystem::path folder) : folder_(std::move(folder)) {}
  Status open_shards();

  std::filesystem::path folder_;
  TensorFiles files_;
};

// What Hugging Face's own writer puts into one file at most.
inline constexpr uint64_t kWeightsShardBytes = 5'000'000'000;

// Copies these tensors of the source, in pieces of bounded size, into model.safetensors, or, where
// they have more than `shard_bytes`, into shards and an index. The folder is made where it is
// missing. A file appears whole, the index last: a crash leaves no weights, or whole ones.
// kAlreadyExists when the folder has weights, which stay as they are; kNotFound for a name that the
// source lacks.
Status write_weights_folder(const std::filesystem::path& folder, const TensorSource& source,
                            const std::vector<std::string>& names,
                            uint64_t shard_bytes = kWeightsShardBytes);

}  // namespace espalier
