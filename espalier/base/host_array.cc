#include "espalier/base/host_array.h"

#include <bit>
#include <cmath>
#include <cstdlib>
#include <new>

namespace espalier {
namespace {

float bf16_to_float(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

// Round to nearest, ties to even; NaN stays NaN.
uint16_t float_to_bf16(float value) {
  if (std::isnan(value)) return 0x7fc0;
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

// Calls visit(T{}) with the C++ type that stores dtype on the host; float16 has none here.
template <class Visit>
void with_type(DType dtype, Visit visit) {
  switch (dtype) {
    case DType::kBool:
      return visit(bool{});
    case DType::kS8:
      return visit(int8_t{});
    case DType::kS16:
      return visit(int16_t{});
    case DType::kS32:
      return visit(int32_t{});
    case DType::kS64:
      return visit(int64_t{});
    case DType::kU8:
      return visit(uint8_t{});
    case DType::kU16:
      return visit(uint16_t{});
    case DType::kU32:
      return visit(uint32_t{});
    case DType::kU64:
      return visit(uint64_t{});
    case DType::kF32:
      return visit(float{});
    case DType::kF64:
      return visit(double{});
    case DType::kF16:
    case DType::kBF16:
      break;
  }
  throw Error(std::string("no host conversion for element type ") + hlo_name(dtype),
              Code::kUnimplemented);
}

// bfloat16 goes by way of float, which holds every bfloat16 exactly.
HostArray widen_bf16(const HostArray& in) {
  HostArray out(DType::kF32, in.dims());
  const auto* from = reinterpret_cast<const uint16_t*>(in.data());
  auto to = out.as<float>();
  for (size_t i = 0; i < to.size(); ++i) to[i] = bf16_to_float(from[i]);
  return out;
}

HostArray narrow_bf16(const HostArray& in) {
  HostArray out(DType::kBF16, in.dims());
  const auto from = in.as<float>();
  auto* to = reinterpret_cast<uint16_t*>(out.data());
  for (size_t i = 0; i < from.size(); ++i) to[i] = float_to_bf16(from[i]);
  return out;
}

}  // namespace

HostArray::HostArray(DType dtype, Dims dims) : dtype_(dtype), dims_(std::move(dims)) {
  for (int64_t d : dims_) {
    if (d < 0) throw Error("HostArray needs sizes >= 0, got " + to_string(dims_));
  }
  // calloc-like zero pages would need no touch, but aligned_alloc keeps rows ready for SIMD.
  const size_t rounded = (std::max<size_t>(bytes(), 1) + 63) / 64 * 64;
  auto* memory = static_cast<std::byte*>(std::aligned_alloc(64, rounded));
  if (memory == nullptr) throw std::bad_alloc();
  std::memset(memory, 0, rounded);
  storage_ = std::shared_ptr<std::byte>(memory, [](std::byte* p) { std::free(p); });
}

void HostArray::check(DType dtype) const {
  if (dtype != dtype_) {
    throw Error(std::string("HostArray holds ") + hlo_name(dtype_) + ", asked for " +
                hlo_name(dtype));
  }
}

HostArray HostArray::clone() const {
  HostArray out(dtype_, dims_);
  std::memcpy(out.data(), data(), bytes());
  return out;
}

HostArray HostArray::reshaped(Dims dims) const {
  if (num_elements(dims) != size()) {
    throw Error("cannot reshape " + to_string(dims_) + " to " + to_string(dims));
  }
  HostArray out = *this;
  out.dims_ = std::move(dims);
  return out;
}

HostArray HostArray::converted(DType dtype) const {
  if (dtype == dtype_) return clone();
  if (dtype_ == DType::kBF16) return widen_bf16(*this).converted(dtype);
  if (dtype == DType::kBF16) return narrow_bf16(converted(DType::kF32));
  HostArray out(dtype, dims_);
  with_type(dtype_, [&](auto from_tag) {
    using From = decltype(from_tag);
    with_type(dtype, [&](auto to_tag) {
      using To = decltype(to_tag);
      const auto from = as<From>();
      auto to = out.as<To>();
      for (size_t i = 0; i < from.size(); ++i) to[i] = static_cast<To>(from[i]);
    });
  });
  return out;
}

}  // namespace espalier
