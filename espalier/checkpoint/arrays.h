// Device arrays in checkpoints and weights' files: padding left out, stacked layers stored one by
// one, written and read shard by shard.
#pragma once

#include "espalier/checkpoint/store.h"
#include "espalier/runtime/device_array.h"

namespace espalier {

// How one device array stands in a file: under one name with `dims`, or, where it is `stacked`,
// under a name for each layer, the array's first dim counting layers. `dims` is the shape without
// padding (and without the dim of the layers).
struct StoredArray {
  std::vector<std::string> names;  // one, or one per layer
  DType dtype = DType::kF32;
  Dims dims;
  std::string group = "model";
  bool stacked = false;
  // The tensors' shape in the file where it is another one, such as [D, 3 * D] for dims [D, 3, H,
  // K]: the same elements in the same row-major order. Empty: `dims`.
  Dims stored_dims{};
};

// What the file holds of this array, for CheckpointWriter::begin and check_names.
std::vector<CheckpointTensor> stored_tensors(const StoredArray& stored);

// Writes each distinct piece once; waits for the array's value.
Status save_array(CheckpointWriter& writer, const StoredArray& stored, const DeviceArray& array);

// Which element types a tensor in the file may have.
enum class StoredType {
  kSame,      // the array's: what we wrote is read back as it was
  kAnyFloat,  // for an f32 or bf16 array f16, bf16, f32 and f64, converted (see convert.h)
};

// Reads an array in a layout, which may split it otherwise than when it was saved; padding is
// zero. Each piece is read, and converted, on its own. A missing tensor (kNotFound) or one of
// another type or shape (kInvalidArgument) is a failure that names it.
Result<DeviceArray> load_array(const TensorSource& source, const StoredArray& stored,
                               const std::shared_ptr<Runtime>& runtime, LayoutPtr layout,
                               StoredType type = StoredType::kSame);

}  // namespace espalier
