// Shard: one of the files that a set of tensors is split into, as Hugging Face names them.
#pragma once

#include <string>
#include <vector>

#include "espalier/checkpoint/tensor_info.h"

namespace espalier {

struct Shard {
  std::string file;  // "STEM-00001-of-00002.safetensors"
  std::vector<TensorInfo> tensors;
};

// Fills files in the tensors' order with at most `file_bytes` of tensors each; a larger tensor has
// one for itself. No tensors: no shards. kInvalidArgument for a shape that cannot be stored.
Result<std::vector<Shard>> split_shards(const std::string& stem, std::vector<TensorInfo> tensors,
                                        uint64_t file_bytes);

}  // namespace espalier
