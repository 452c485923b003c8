// DType: element types, with their names in StableHLO ("f32", "i32", "ui32", "i1") and in
// safetensors ("F32", "I32", "U32", "BOOL").
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/base/error.h"

namespace espalier {

enum class DType : uint8_t {
  kBool,
  kS8,
  kS16,
  kS32,
  kS64,
  kU8,
  kU16,
  kU32,
  kU64,
  kF16,
  kBF16,
  kF32,
  kF64
};

// Sizes of a tensor, outermost first; a scalar has none.
using Dims = std::vector<int64_t>;

// Bytes of one element as stored on the host (bool is one byte).
size_t byte_size(DType dtype);
const char* hlo_name(DType dtype);
const char* safetensors_name(DType dtype);
// Inverse of safetensors_name; an unknown name is kInvalidArgument.
Result<DType> dtype_from_safetensors(std::string_view name);
// "float32", "bfloat16", ... as recipes write it; f32/bf16 are accepted too.
Result<DType> dtype_from_recipe(std::string_view name);

bool is_floating(DType dtype);
bool is_integer(DType dtype);  // signed or unsigned, not bool
bool is_unsigned(DType dtype);

// Product of the sizes; 1 for a scalar.
int64_t num_elements(const Dims& dims);
// "[2, 3]"
std::string to_string(const Dims& dims);

// Element type of a C++ type: DTypeOf<float>::value.
template <class T>
struct DTypeOf;
template <>
struct DTypeOf<bool> {
  static constexpr DType value = DType::kBool;
};
template <>
struct DTypeOf<int8_t> {
  static constexpr DType value = DType::kS8;
};
template <>
struct DTypeOf<int16_t> {
  static constexpr DType value = DType::kS16;
};
template <>
struct DTypeOf<int32_t> {
  static constexpr DType value = DType::kS32;
};
template <>
struct DTypeOf<int64_t> {
  static constexpr DType value = DType::kS64;
};
template <>
struct DTypeOf<uint8_t> {
  static constexpr DType value = DType::kU8;
};
template <>
struct DTypeOf<uint16_t> {
  static constexpr DType value = DType::kU16;
};
template <>
struct DTypeOf<uint32_t> {
  static constexpr DType value = DType::kU32;
};
template <>
struct DTypeOf<uint64_t> {
  static constexpr DType value = DType::kU64;
};
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::kF32;
};
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::kF64;
};

}  // namespace espalier
