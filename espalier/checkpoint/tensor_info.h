// TensorInfo: what a file says about a tensor; slices of a stored tensor as runs of bytes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/base/dtype.h"

namespace espalier {

struct TensorInfo {
  std::string name;
  DType dtype = DType::kF32;
  Dims dims;
  bool operator==(const TensorInfo&) const = default;
};

// Bytes that the tensor takes in a file; kInvalidArgument for a negative size or a product beyond
// 63 bits.
Result<uint64_t> stored_bytes(const TensorInfo& tensor);

// kInvalidArgument unless [offset, offset + shape) lies inside the tensor and `bytes` is exactly
// the slice's size.
Status check_slice(const TensorInfo& tensor, const Dims& offset, const Dims& shape, uint64_t bytes);

// The tensor looked at in another shape of the same bytes; kInvalidArgument when the shapes differ
// in their number of elements.
Result<TensorInfo> viewed(const TensorInfo& tensor, const Dims& view);

// The `count` names of the smallest edit distance to `name`, the nearest first.
std::vector<std::string> nearest_names(std::string_view name, std::vector<std::string> names,
                                       size_t count);

// kNotFound: "no tensor 'NAME' in 'WHERE'; the nearest names are ...".
Failure unknown_tensor(std::string_view name, const std::vector<TensorInfo>& tensors,
                       const std::string& where);

// Calls visit(tensor_byte, slice_byte, bytes) -> Status for every longest run of bytes that is
// contiguous both in the whole row-major tensor and in the row-major slice, in rising order of
// both; stops at the first failure. Requires check_slice() to have passed.
template <class Visit>
Status for_each_run(const TensorInfo& tensor, const Dims& offset, const Dims& shape, Visit visit) {
  const size_t rank = tensor.dims.size();
  std::vector<uint64_t> stride(rank);
  uint64_t start = 0, next = byte_size(tensor.dtype), run = next;
  for (size_t i = rank; i-- > 0;) {
    if (shape[i] == 0) return {};
    stride[i] = next;
    next *= static_cast<uint64_t>(tensor.dims[i]);
    start += static_cast<uint64_t>(offset[i]) * stride[i];
  }
  // Dimensions that the slice takes whole join the run, and so does the first one taken in part.
  size_t outer = rank;
  while (outer > 0) {
    --outer;
    run *= static_cast<uint64_t>(shape[outer]);
    if (shape[outer] != tensor.dims[outer]) break;
  }
  Dims index(outer, 0);
  for (uint64_t slice_byte = 0;; slice_byte += run) {
    ESPALIER_TRY(visit(start, slice_byte, run));
    size_t i = outer;
    while (i > 0) {
      --i;
      start += stride[i];
      if (++index[i] < shape[i]) break;
      start -= stride[i] * static_cast<uint64_t>(shape[i]);
      index[i] = 0;
      if (i == 0) return {};
    }
    if (outer == 0) return {};
  }
}

}  // namespace espalier
