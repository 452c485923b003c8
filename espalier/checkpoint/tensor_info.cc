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

Result<TensorInfo> viewed(const TensorInfo& tensor, const Dims& view) {
  TensorInfo out{tensor.name, tensor.dtype, view};
  ESPALIER_ASSIGN(const uint64_t bytes, stored_bytes(out));
  ESPALIER_ASSIGN(const uint64_t stored, stored_bytes(tensor));
  if (bytes == stored) return out;
  return Failure{Code::kInvalidArgument, "tensor '" + tensor.name + "' of shape " +
                                             to_string(tensor.dims) + " cannot be seen as " +
                                             to_string(view) + ": the numbers of elements differ"};
}

std::vector<std::string> nearest_names(std::string_view name, std::vector<std::string> names,
                                       size_t count) {
  std::vector<std::pair<size_t, std::string>> ranked;
  ranked.reserve(names.size());
  for (std::string& other : names) {
    const size_t distance = edit_distance(name, other);
    ranked.emplace_back(distance, std::move(other));
  }
  const auto end = ranked.begin() + static_cast<std::ptrdiff_t>(std::min(count, ranked.size()));
  std::partial_sort(ranked.begin(), end, ranked.end());
  ranked.erase(end, ranked.end());
  std::vector<std::string> out;
  for (auto& [distance, other] : ranked) out.push_back(std::move(other));
  return out;
}

Failure unknown_tensor(std::string_view name, const std::vector<TensorInfo>& tensors,
                       const std::string& where) {
  std::vector<std::string> names;
  names.reserve(tensors.size());
  for (const TensorInfo& t : tensors) names.push_back(t.name);
  const std::vector<std::string> nearest = nearest_names(name, std::move(names), 3);
  std::string message = "no tensor '" + std::string(name) + "' in '" + where + "'";
  if (nearest.empty()) return {Code::kNotFound, message + ", which holds none"};
  message += "; the nearest names are ";
  for (size_t i = 0; i < nearest.size(); ++i) message += (i > 0 ? ", '" : "'") + nearest[i] + "'";
  return {Code::kNotFound, message};
}

}  // namespace espalier
