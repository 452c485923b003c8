#include <algorithm>
#include <nlohmann/json.hpp>

#include "espalier/checkpoint/shards.h"
#include "espalier/checkpoint/weights_folder.h"

namespace espalier {
namespace fs = std::filesystem;
namespace {

// Held in memory at once while copying.
constexpr uint64_t kCopyBytes = uint64_t{64} << 20;

// Reads as many of the outermost dim's rows at once as fit.
Status copy_tensor(const TensorSource& source, const TensorInfo& tensor,
                   SafetensorsWriter& writer) {
  ESPALIER_ASSIGN(const uint64_t bytes, stored_bytes(tensor));
  if (bytes == 0) return {};
  // A scalar is a row of its own.
  const Dims view = tensor.dims.empty() ? Dims{1} : tensor.dims;
  const uint64_t row = bytes / static_cast<uint64_t>(view[0]);
  const int64_t rows = std::max<int64_t>(1, static_cast<int64_t>(kCopyBytes / row));
  std::vector<std::byte> piece;
  Dims offset(view.size(), 0), shape = view;
  for (; offset[0] < view[0]; offset[0] += rows) {
    shape[0] = std::min(rows, view[0] - offset[0]);
    piece.resize(static_cast<size_t>(shape[0]) * row);
    ESPALIER_TRY(source.read_view(tensor.name, view, offset, shape, piece));
    ESPALIER_TRY(writer.write_view(tensor.name, view, offset, shape, piece));
  }
  return {};
}

Status write_file_of(const fs::path& path, const TensorSource& source,
                     const std::vector<TensorInfo>& tensors) {
  // transformers refuses a file that does not say whose layout its tensors have.
  ESPALIER_ASSIGN(SafetensorsWriter writer,
                  SafetensorsWriter::create(path, tensors, {{"format", "pt"}}));
  for (const TensorInfo& tensor : tensors) ESPALIER_TRY(copy_tensor(source, tensor, writer));
  const auto digest = writer.finish();
  if (!digest) return digest.failure();
  return {};
}

}  // namespace

Status write_weights_folder(const fs::path& folder, const TensorSource& source,
                            const std::vector<std::string>& names, uint64_t shard_bytes) {
  const fs::path single = folder / "model.safetensors", index = single.string() + ".index.json";
  std::vector<TensorInfo> tensors;
  uint64_t total = 0;
  for (const std::string& name : names) {
    const TensorInfo* found = source.find(name);
    if (found == nullptr) return unknown_tensor(name, source.tensors(), source.where());
    ESPALIER_ASSIGN(const uint64_t bytes, stored_bytes(*found));
    total += bytes;
    tensors.push_back(*found);
  }
  for (const fs::path& there : {single, index}) {
    std::error_code ignored;
    if (!fs::exists(there, ignored)) continue;
    return Failure{Code::kAlreadyExists, "'" + there.string() +
                                             "' is there already; give another folder, or remove "
                                             "the weights in this one"};
  }
  ESPALIER_TRY(make_folders(folder));
  if (total <= shard_bytes) return write_file_of(single, source, tensors);
  ESPALIER_ASSIGN(const std::vector<Shard> shards,
                  split_shards("model", std::move(tensors), shard_bytes));
  nlohmann::json weight_map = nlohmann::json::object();
  for (const Shard& shard : shards) {
    ESPALIER_TRY(write_file_of(folder / shard.file, source, shard.tensors));
    for (const TensorInfo& tensor : shard.tensors) weight_map[tensor.name] = shard.file;
  }
  const nlohmann::json json = {{"metadata", {{"total_size", total}}}, {"weight_map", weight_map}};
  return write_file(index, json.dump(2) + "\n");
}

}  // namespace espalier
