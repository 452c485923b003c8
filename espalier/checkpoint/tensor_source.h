// TensorSource: named tensors that are read slice by slice, wherever they lie: a checkpoint, one
// safetensors file, a folder of published weights.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/checkpoint/tensor_info.h"

namespace espalier {

// Implementations are safe to read from several threads. Names are unique.
class TensorSource {
 public:
  virtual ~TensorSource() = default;

  // The folder or file that holds the tensors, for messages.
  virtual std::string where() const = 0;
  virtual const std::vector<TensorInfo>& tensors() const = 0;
  // nullptr when there is none of that name; lives as long as the source.
  virtual const TensorInfo* find(std::string_view name) const = 0;

  // Copies the slice [offset, offset + shape) of a tensor, looked at in the shape `view`, to `out`,
  // row-major, in the tensor's own element type. `view` has as many elements as the tensor has, and
  // `out` exactly the slice's size; anything else is kInvalidArgument, an unknown name kNotFound.
  virtual Status read_view(std::string_view name, const Dims& view, const Dims& offset,
                           const Dims& shape, std::span<std::byte> out) const = 0;

  // The same in the tensor's own shape.
  Status read_slice(std::string_view name, const Dims& offset, const Dims& shape,
                    std::span<std::byte> out) const {
    const TensorInfo* found = find(name);
    if (found == nullptr) return unknown_tensor(name, tensors(), where());
    return read_view(name, found->dims, offset, shape, out);
  }
};

}  // namespace espalier
