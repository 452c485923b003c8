#include "espalier/checkpoint/arrays.h"

#include <algorithm>

#include "espalier/checkpoint/convert.h"

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

const Dims& stored_dims(const StoredArray& stored) {
  return stored.stored_dims.empty() ? stored.dims : stored.stored_dims;
}

// Visits the rows of a part inside its slab: (byte in the slab, byte in the dense part, bytes).
Status for_each_part_row(const Part& part, DType dtype,
                         const std::function<Status(uint64_t, uint64_t, uint64_t)>& visit) {
  const TensorInfo slab{"", dtype, part.piece_dims};
  return for_each_run(slab, Dims(part.dims.size(), 0), part.dims, visit);
}

Status check_stored(const TensorSource& source, const StoredArray& stored, const std::string& name,
                    StoredType type) {
  const TensorInfo* found = source.find(name);
  if (found == nullptr) return unknown_tensor(name, source.tensors(), source.where());
  const bool floats = is_floating(stored.dtype) && is_floating(found->dtype);
  const bool converts = type == StoredType::kAnyFloat && floats;
  if ((found->dtype == stored.dtype || converts) && found->dims == stored_dims(stored)) return {};
  const bool same_shape = found->dims == stored_dims(stored);
  return Failure{Code::kInvalidArgument,
                 "tensor '" + name + "' in '" + source.where() + "' is " + hlo_name(found->dtype) +
                     to_string(found->dims) + ", but the model has " + hlo_name(stored.dtype) +
                     to_string(stored_dims(stored)) +
                     (floats && same_shape
                          ? "; set train.param_dtype to the type that the parameters were held in"
                          : "; use the recipe, or the config.json, that they belong to")};
}

// Reads a part into `out`, dense, in the array's element type.
Status read_dense(const TensorSource& source, const StoredArray& stored, const Part& part,
                  std::span<std::byte> out) {
  const std::string& name = stored.names[part.tensor];
  const DType from = source.find(name)->dtype;
  if (from == stored.dtype) {
    return source.read_view(name, stored.dims, part.offset, part.dims, out);
  }
  HostArray raw(from, part.dims);
  ESPALIER_TRY(source.read_view(name, stored.dims, part.offset, part.dims,
                                std::span(raw.data(), raw.bytes())));
  convert_floats(from, {raw.data(), raw.bytes()}, stored.dtype, out);
  return {};
}

// Reads a part into its place in its slab.
Status read_part(const TensorSource& source, const StoredArray& stored, const Part& part,
                 std::span<std::byte> slab) {
  if (part.dims == part.piece_dims) return read_dense(source, stored, part, slab);
  HostArray dense(stored.dtype, part.dims);
  ESPALIER_TRY(read_dense(source, stored, part, {dense.data(), dense.bytes()}));
  return for_each_part_row(part, stored.dtype,
                           [&](uint64_t to, uint64_t from, uint64_t n) -> Status {
                             std::memcpy(slab.data() + to, dense.data() + from, n);
                             return {};
                           });
}

}  // namespace

std::vector<CheckpointTensor> stored_tensors(const StoredArray& stored) {
  std::vector<CheckpointTensor> out;
  for (const std::string& name : stored.names) {
    out.push_back({{name, stored.dtype, stored_dims(stored)}, stored.group});
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
        ESPALIER_TRY(writer.write_view(stored.names[part.tensor], stored.dims, part.offset,
                                       part.dims, slab.first(size)));
        continue;
      }
      HostArray dense(stored.dtype, part.dims);
      ESPALIER_TRY(for_each_part_row(part, stored.dtype,
                                     [&](uint64_t from, uint64_t to, uint64_t n) -> Status {
                                       std::memcpy(dense.data() + to, slab.data() + from, n);
                                       return {};
                                     }));
      ESPALIER_TRY(writer.write_view(stored.names[part.tensor], stored.dims, part.offset, part.dims,
                                     {dense.data(), dense.bytes()}));
    }
    return {};
  });
}

Result<DeviceArray> load_array(const TensorSource& source, const StoredArray& stored,
                               const std::shared_ptr<Runtime>& runtime, LayoutPtr layout,
                               StoredType type) {
  for (const std::string& name : stored.names)
    ESPALIER_TRY(check_stored(source, stored, name, type));
  return DeviceArray::from_pieces(
      runtime, std::move(layout),
      [&](const Dims& offset, const Dims& dims, std::span<std::byte> bytes) -> Status {
        for (const Part& part : parts_of(stored, offset, dims)) {
          const size_t slab = static_cast<size_t>(num_elements(part.piece_dims));
          ESPALIER_TRY(read_part(source, stored, part,
                                 bytes.subspan(part.first_byte, slab * byte_size(stored.dtype))));
        }
        return {};
      });
}

}  // namespace espalier
