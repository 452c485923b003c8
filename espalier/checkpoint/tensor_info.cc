#include "espalier/checkpoint/tensor_info.h"

#include <algorithm>
#include <numeric>

namespace espalier {
namespace {

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t replaced = diagonal + (a[i] != b[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

}  // namespace

Result<uint64_t> stored_bytes(const TensorInfo& tensor) {
  auto bytes = static_cast<int64_t>(byte_size(tensor.dtype));
  bool fits = true, empty = false;
  for (int64_t d : tensor.dims) {
    if (d < 0) {
      return Failure{
          Code::kInvalidArgument,
          "tensor '" + tensor.name + "' has a negative size in " + to_string(tensor.dims)};
    }
    if (d == 0) {
      empty = true;
    } else {
      fits = fits && !__builtin_mul_overflow(bytes, d, &bytes);
    }
  }
  if (!fits) {
    return Failure{Code::kInvalidArgument, "tensor '" + tensor.name + "' of shape " +
                                               to_string(tensor.dims) +
                                               " has more bytes than 63 bits can count"};
  }
  return empty ? 0 : static_cast<uint64_t>(bytes);
}

Status check_slice(const TensorInfo& tensor, const Dims& offset, const Dims& shape,
                   uint64_t bytes) {
  bool inside = offset.size() == tensor.dims.size() && shape.size() == tensor.dims.size();
  for (size_t i = 0; inside && i < shape.size(); ++i) {
    inside = offset[i] >= 0 && shape[i] >= 0 && offset[i] <= tensor.dims[i] &&
             shape[i] <= tensor.dims[i] - offset[i];
  }
  if (!inside) {
    return Failure{Code::kInvalidArgument, "slice at " + to_string(offset) + " of shape " +
                                               to_string(shape) + " does not lie inside tensor '" +
                                               tensor.name + "' of shape " +
                                               to_string(tensor.dims)};
  }
  ESPALIER_ASSIGN(const uint64_t needed,
                  stored_bytes(TensorInfo{tensor.name, tensor.dtype, shape}));
  if (bytes != needed) {
    return Failure{Code::kInvalidArgument,
                   "slice of shape " + to_string(shape) + " of tensor '" + tensor.name + "' (" +
                       safetensors_name(tensor.dtype) + ") needs " + std::to_string(needed) +
                       " bytes, got " + std::to_string(bytes)};
  }
  return {};
}

Failure unknown_tensor(std::string_view name, const std::vector<TensorInfo>& tensors,
                       const std::string& where) {
  std::vector<std::pair<size_t, std::string>> ranked;
  ranked.reserve(tensors.size());
  for (const TensorInfo& t : tensors) ranked.emplace_back(edit_distance(name, t.name), t.name);
  const size_t shown = std::min<size_t>(3, ranked.size());
  std::partial_sort(ranked.begin(), ranked.begin() + static_cast<std::ptrdiff_t>(shown),
                    ranked.end());
  std::string message = "no tensor '" + std::string(name) + "' in '" + where + "'";
  if (shown == 0) return {Code::kNotFound, message + ", which holds none"};
  message += "; the nearest names are ";
  for (size_t i = 0; i < shown; ++i) message += (i > 0 ? ", '" : "'") + ranked[i].second + "'";
  return {Code::kNotFound, message};
}

}  // namespace espalier
