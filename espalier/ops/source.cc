#include "espalier/ops/source.h"

#include <spdlog/fmt/fmt.h>

#include <bit>
#include <cmath>
#include <cstring>

#include "espalier/hlo/writer.h"

namespace espalier {
namespace {

// Hexadecimal bit patterns stand for what decimal text cannot: infinities and NaN.
std::string float_text(double value, DType dtype) {
  if (dtype != DType::kF64) value = static_cast<float>(value);  // may become infinite
  if (std::isfinite(value)) return fmt::format("{:.{}e}", value, dtype == DType::kF64 ? 17 : 9);
  const auto sign = std::signbit(value);
  const bool nan = std::isnan(value);
  switch (dtype) {
    case DType::kF64:
      return nan ? "0x7FF8000000000000" : sign ? "0xFFF0000000000000" : "0x7FF0000000000000";
    case DType::kF32:
      return nan ? "0x7FC00000" : sign ? "0xFF800000" : "0x7F800000";
    case DType::kBF16:
      return nan ? "0x7FC0" : sign ? "0xFF80" : "0x7F80";
    default:
      return nan ? "0x7E00" : sign ? "0xFC00" : "0x7C00";
  }
}

// Unsigned types print their bit pattern as a number without sign.
std::string integer_text(int64_t value, DType dtype) {
  if (!is_unsigned(dtype)) return std::to_string(value);
  return std::to_string(static_cast<uint64_t>(value) & (~0ULL >> (64 - 8 * byte_size(dtype))));
}

bool holds(DType dtype, int64_t value) {
  if (dtype == DType::kBool) return value == 0 || value == 1;
  const auto bits = static_cast<int>(8 * byte_size(dtype));
  if (bits == 64) return true;
  const int64_t half = int64_t{1} << (bits - 1);
  return value >= -half && value < (is_unsigned(dtype) ? 2 * half : half);
}

std::string element_text(const HostArray& array, size_t i) {
  switch (array.dtype()) {
    case DType::kF32:
      return float_text(array.as<float>()[i], DType::kF32);
    case DType::kF64:
      return float_text(array.as<double>()[i], DType::kF64);
    case DType::kS32:
      return std::to_string(array.as<int32_t>()[i]);
    case DType::kS64:
      return std::to_string(array.as<int64_t>()[i]);
    case DType::kU32:
      return std::to_string(array.as<uint32_t>()[i]);
    default:  // infer accepts no others
      return array.as<bool>()[i] ? "true" : "false";
  }
}

std::string nested(const HostArray& array, size_t dim, size_t& next) {
  if (dim == array.dims().size()) return element_text(array, next++);
  std::string out = "[";
  for (int64_t i = 0; i < array.dims()[dim]; ++i) {
    out += (i > 0 ? ", " : "") + nested(array, dim + 1, next);
  }
  return out + "]";
}

}  // namespace

bool Splat::operator==(const Splat& other) const {
  return type == other.type && integer == other.integer &&
         std::bit_cast<uint64_t>(value) == std::bit_cast<uint64_t>(other.value);
}
std::vector<TensorType> Splat::infer(Types in) const {
  require_operands(name(), in, 0);
  return {type};
}
Tensors Splat::vjp(const VjpArgs&) const { return {}; }
void Splat::lower(hlo::Writer& w, const Node& node) const {
  const std::string text = type.dtype == DType::kBool ? (integer != 0 ? "true" : "false")
                           : is_floating(type.dtype)  ? float_text(value, type.dtype)
                                                      : integer_text(integer, type.dtype);
  const std::string id = w.fresh();
  w.line(id + " = stablehlo.constant dense<" + text + "> : " + hlo::type_text(type));
  w.bind(Tensor(node.shared_from_this(), 0), id);
}

bool Constant::operator==(const Constant& other) const {
  return array.dtype() == other.array.dtype() && array.dims() == other.array.dims() &&
         std::memcmp(array.data(), other.array.data(), array.bytes()) == 0;
}
std::vector<TensorType> Constant::infer(Types in) const {
  require_operands(name(), in, 0);
  switch (array.dtype()) {
    case DType::kF32:
    case DType::kF64:
    case DType::kS32:
    case DType::kS64:
    case DType::kU32:
    case DType::kBool:
      return {{array.dtype(), array.dims()}};
    default:
      fail(name(), std::string("has no literal text for element type ") + hlo_name(array.dtype()));
  }
}
Tensors Constant::vjp(const VjpArgs&) const { return {}; }
void Constant::lower(hlo::Writer& w, const Node& node) const {
  size_t next = 0;
  const std::string id = w.fresh();
  w.line(id + " = stablehlo.constant dense<" + nested(array, 0, next) +
         "> : " + hlo::type_text(node.types[0]));
  w.bind(Tensor(node.shared_from_this(), 0), id);
}

std::vector<TensorType> Iota::infer(Types in) const {
  require_operands(name(), in, 0);
  if (dim < 0 || dim >= type.rank()) {
    fail(name(),
         "needs a dim below rank " + std::to_string(type.rank()) + ", got " + std::to_string(dim));
  }
  return {type};
}
Tensors Iota::vjp(const VjpArgs&) const { return {}; }
void Iota::lower(hlo::Writer& w, const Node& node) const {
  w.generic(node, "stablehlo.iota", "iota_dimension = " + std::to_string(dim) + " : i64");
}

Tensor full(TensorType type, double value) {
  const bool floating = is_floating(type.dtype);
  const auto integer = floating ? int64_t{0} : static_cast<int64_t>(value);
  return apply(Splat{std::move(type), floating ? value : 0.0, integer}, {});
}
Tensor full_int(TensorType type, int64_t value) {
  if (is_floating(type.dtype)) return full(std::move(type), static_cast<double>(value));
  if (!holds(type.dtype, value)) {
    fail("full_int", "cannot hold " + std::to_string(value) + " in " + to_string(type) +
                         "; give a value of its range or a wider type");
  }
  return apply(Splat{std::move(type), 0.0, value}, {});
}
Tensor scalar(DType dtype, double value) { return full({dtype, {}}, value); }
Tensor zeros(TensorType type) { return full(std::move(type), 0); }
Tensor zeros_like(const Tensor& x) { return zeros(x.type()); }
Tensor ones_like(const Tensor& x) { return full(x.type(), 1); }
Tensor constant(HostArray array) { return apply(Constant{std::move(array)}, {}); }
Tensor iota(TensorType type, int64_t dim) { return apply(Iota{std::move(type), dim}, {}); }

}  // namespace espalier
