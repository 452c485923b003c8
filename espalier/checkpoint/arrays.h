// Device arrays in checkpoints: padding left out, stacked layers stored one by one, written and
// read shard by shard.
#pragma once

#include "espalier/checkpoint/store.h"
#include "espalier/runtime/device_array.h"

namespace espalier {

// How one device array stands in a checkpoint: under one name with `dims`, or, where `layers` is
// above 0, under a name for each layer, the array's first dim counting layers. `dims` is the shape
// without padding (and without the dim of the layers).
struct StoredArray {
  std::vector<std::string> names;  // one, or one per layer
  DType dtype = DType::kF32;
  Dims dims;
  std::string group = "model";
  bool stacked = false;
};

// What the checkpoint will hold of this array, for CheckpointWriter::begin.
std::vector<CheckpointTensor> stored_tensors(const StoredArray& stored);

// Writes each distinct piece once; waits for the array's value.
Status save_array(CheckpointWriter& writer, const StoredArray& stored, const DeviceArray& array);

// Reads an array in a layout, which may split it otherwise than when it was saved; padding is
// zero. A missing tensor or one of another type or shape is a failure that names it.
Result<DeviceArray> load_array(const CheckpointReader& reader, const StoredArray& stored,
                               const std::shared_ptr<Runtime>& runtime, LayoutPtr layout);

}  // namespace espalier
