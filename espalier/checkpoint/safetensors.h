// Safetensors files: https://huggingface.co/docs/safetensors
//
//   8 bytes   N: length of the header, little-endian
//   N bytes   JSON: {"NAME": {"dtype": "F32", "shape": [2, 3], "data_offsets": [BEGIN, END]}, ...,
//             "__metadata__": {"KEY": "VALUE", ...}}, padded with spaces to a multiple of 8
//   the rest  the tensors, row-major, little-endian, without gaps; offsets count from here
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "espalier/base/file.h"
#include "espalier/base/host_array.h"
#include "espalier/checkpoint/digest.h"
#include "espalier/checkpoint/tensor_source.h"

namespace espalier {

// A file open for reading, mapped into memory: only the pages that are read are loaded. Copies
// share the map. Safe to read from several threads. The file must not be cut short while it is
// open.
class SafetensorsFile : public TensorSource {
 public:
  // Checks the whole header: its length, its JSON, every type, shape and offset, that the tensors
  // fill the file without gap or overlap. Anything else is kDataLoss, with both byte counts when
  // the file is cut short; an element type that Espalier lacks is kUnimplemented.
  static Result<SafetensorsFile> open(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return file_.path(); }
  std::string where() const override { return path().string(); }
  // In the order of their bytes in the file.
  const std::vector<TensorInfo>& tensors() const override { return tensors_; }
  // The header's "__metadata__"; empty when there is none.
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  const TensorInfo* find(std::string_view name) const override;

  // The tensor's bytes in the map, which may not be aligned to its element type. Valid as long as
  // any copy of this object.
  Result<std::span<const std::byte>> view(std::string_view name) const;
  Result<HostArray> read(std::string_view name) const;
  Status read_view(std::string_view name, const Dims& view, const Dims& offset, const Dims& shape,
                   std::span<std::byte> out) const override;

 private:
  explicit SafetensorsFile(MappedFile file) : file_(std::move(file)) {}
  Status parse();
  Result<size_t> index_of(std::string_view name) const;

  MappedFile file_;
  std::vector<TensorInfo> tensors_;
  std::vector<std::span<const std::byte>> views_;  // one for each tensor
  std::unordered_map<std::string, size_t> index_;
  std::map<std::string, std::string> metadata_;
};

// Writes a file whose tensors are known beforehand and whose bytes come in pieces, in any order.
// The target appears, whole, at finish(); without it nothing is left. write_piece() may be called
// from several threads at once.
class SafetensorsWriter {
 public:
  // Lays the tensors out (wider element types first, then by name, which keeps each one aligned)
  // and reserves the space, so that a full disk shows here as kResourceExhausted.
  static Result<SafetensorsWriter> create(const std::filesystem::path& target,
                                          std::vector<TensorInfo> tensors,
                                          const std::map<std::string, std::string>& metadata = {});
  SafetensorsWriter(SafetensorsWriter&&) noexcept;
  SafetensorsWriter& operator=(SafetensorsWriter&&) noexcept;
  ~SafetensorsWriter();

  // Writes the slice [offset, offset + shape) of a tensor from its row-major bytes.
  Status write_piece(std::string_view name, const Dims& offset, const Dims& shape,
                     std::span<const std::byte> bytes);
  // The same with offset and shape in the shape `view`, which has as many elements as the tensor.
  // All pieces of one tensor have one view.
  Status write_view(std::string_view name, const Dims& view, const Dims& offset, const Dims& shape,
                    std::span<const std::byte> bytes);
  // A whole tensor; type and shape must be those given to create().
  Status write(std::string_view name, const HostArray& array);

  // Syncs the file and renames it to the target. kFailedPrecondition unless the pieces cover every
  // tensor exactly once. The digest is of the bytes read back. Nothing may be written afterwards.
  Result<FileDigest> finish();

 private:
  struct State;
  explicit SafetensorsWriter(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace espalier
