#include "espalier/checkpoint/arrays.h"

#include <algorithm>

namespace espalier {
namespace {

// The part of one piece that belongs to one stored tensor.
struct Part {
  size_t tensor;      // index into StoredArray::names
  Dims offset, dims;  // in the stored tensor
  size_t first_byte;  // of this layer in the piece
  Dims piece_dims;    // of this layer's slab of the piece
};

// Cuts a piece of the (padded, stacked) array into parts of stored tensors; what is padding alone
// gives no part.
std::vector<Part> parts_of(const StoredArray& stored, const Dims& offset, const Dims& dims) {
  std::vector<Part> out;
  const size_t skip = stored.stacked ? 1 : 0;
  Part part;
  part.offset.assign(offset.begin() + static_cast<int64_t>(skip), offset.end());
  part.piece_dims.assign(dims.begin() + static_cast<int64_t>(skip), dims.end());
  part.dims = part.piece_dims;
  for (size_t d = 0; d < part.dims.size(); ++d) {
    part.dims[d] = std::min(part.dims[d], stored.dims[d] - part.offset[d]);
    if (part.dims[d] <= 0) return out;
  }
  const size_t slab = static_cast<size_t>(num_elements(part.piece_dims)) * byte_size(stored.dtype);
  const int64_t layers = stored.stacked ? dims[0] : 1;
  for (int64_t i = 0; i < layers; ++i) {
    part.tensor = static_cast<size_t>(stored.stacked ? offset[0] + i : 0);
    part.first_byte = static_cast<size_t>(i) * slab;
    out.push_back(part);
  }
  return out;
}

// Visits the rows of a part inside its slab: (byte in the slab, byte in the dense part, bytes).
Status for_each_part_row(const Part& part, DType dtype,
                         const std::function<Status(uint64_t, uint64_t, uint64_t)>& visit) {
  const TensorInfo slab{"", dtype, part.piece_dims};
  return for_each_run(slab, Dims(part.dims.size(), 0), part.dims, visit);
}

}  // namespace

std::vector<CheckpointTensor> stored_tensors(const StoredArray& stored) {
  std::vector<CheckpointTensor> out;
  for (const std::string& name : stored.names) {
    out.push_back({{name, stored.dtype, stored.dims}, stored.group});
  }
  return out;
}

Status save_array(CheckpointWriter& writer, const StoredArray& stored, const DeviceArray& array) {
  return array.for_each_piece([&](const Dims& offset, const Dims& dims,
                                  std::span<const std::byte> bytes) -> Status {
    for (const Part& part : parts_of(stored, offset, dims)) {
      const auto slab = bytes.subspan(part.first_byte);
      if (part.dims == part.piece_dims) {
        const size_t size = static_cast<size_t>(num_elements(part.dims)) * byte_size(stored.dtype);
        ESPALIER_TRY(writer.write_piece(stored.names[part.tensor], part.offset, part.dims,
                                        slab.first(size)));
        continue;
      }
      HostArray dense(stored.dtype, part.dims);
      ESPALIER_TRY(for_each_part_row(part, stored.dtype,
                                     [&](uint64_t from, uint64_t to, uint64_t n) -> Status {
                                       std::memcpy(dense.data() + to, slab.data() + from, n);
                                       return {};
                                     }));
      ESPALIER_TRY(writer.write_piece(stored.names[part.tensor], part.offset, part.dims,
                                      {dense.data(), dense.bytes()}));
    }
    return {};
  });
}

Result<DeviceArray> load_array(const CheckpointReader& reader, const StoredArray& stored,
                               const std::shared_ptr<Runtime>& runtime, LayoutPtr layout) {
  for (const std::string& name : stored.names) {
    const TensorInfo* found = reader.find(name);
    if (found == nullptr) return unknown_tensor(name, reader.tensors(), reader.folder().string());
    if (found->dtype != stored.dtype || found->dims != stored.dims) {
      return Failure{Code::kInvalidArgument,
                     "tensor '" + name + "' in '" + reader.folder().string() + "' is " +
                         hlo_name(found->dtype) + to_string(found->dims) + ", but the model has " +
                         hlo_name(stored.dtype) + to_string(stored.dims) +
                         "; use the recipe that the checkpoint was made with"};
    }
  }
  return DeviceArray::from_pieces(
      runtime, std::move(layout),
      [&](const Dims& offset, const Dims& dims, std::span<std::byte> bytes) -> Status {
        for (const Part& part : parts_of(stored, offset, dims)) {
          const auto slab = bytes.subspan(part.first_byte);
          HostArray dense(stored.dtype, part.dims);
          ESPALIER_TRY(reader.read_slice(stored.names[part.tensor], part.offset, part.dims,
                                         {dense.data(), dense.bytes()}));
          ESPALIER_TRY(for_each_part_row(part, stored.dtype,
                                         [&](uint64_t to, uint64_t from, uint64_t n) -> Status {
                                           std::memcpy(slab.data() + to, dense.data() + from, n);
                                           return {};
                                         }));
        }
        return {};
      });
}

}  // namespace espalier
