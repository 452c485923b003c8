#include "espalier/checkpoint/shards.h"

#include <fmt/format.h>

namespace espalier {

Result<std::vector<Shard>> split_shards(const std::string& stem, std::vector<TensorInfo> tensors,
                                        uint64_t file_bytes) {
  std::vector<Shard> out;
  uint64_t filled = 0;  // bytes in the last one
  for (TensorInfo& tensor : tensors) {
    ESPALIER_ASSIGN(const uint64_t bytes, stored_bytes(tensor));
    if (out.empty() || filled + bytes > file_bytes) {
      out.emplace_back();
      filled = 0;
    }
    out.back().tensors.push_back(std::move(tensor));
    filled += bytes;
  }
  for (size_t i = 0; i < out.size(); ++i) {
    out[i].file = fmt::format("{}-{:05}-of-{:05}.safetensors", stem, i + 1, out.size());
  }
  return out;
}

}  // namespace espalier
