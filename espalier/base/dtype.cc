#include "espalier/base/dtype.h"

#include <array>

namespace espalier {
namespace {

struct Row {
  DType dtype;
  size_t bytes;
  const char* hlo;
  const char* safetensors;
  const char* recipe;
};

// Ordered as the enumeration.
constexpr std::array<Row, 13> kRows = {{
    {DType::kBool, 1, "i1", "BOOL", "bool"},
    {DType::kS8, 1, "i8", "I8", "int8"},
    {DType::kS16, 2, "i16", "I16", "int16"},
    {DType::kS32, 4, "i32", "I32", "int32"},
    {DType::kS64, 8, "i64", "I64", "int64"},
    {DType::kU8, 1, "ui8", "U8", "uint8"},
    {DType::kU16, 2, "ui16", "U16", "uint16"},
    {DType::kU32, 4, "ui32", "U32", "uint32"},
    {DType::kU64, 8, "ui64", "U64", "uint64"},
    {DType::kF16, 2, "f16", "F16", "float16"},
    {DType::kBF16, 2, "bf16", "BF16", "bfloat16"},
    {DType::kF32, 4, "f32", "F32", "float32"},
    {DType::kF64, 8, "f64", "F64", "float64"},
}};

const Row& row(DType dtype) { return kRows[static_cast<size_t>(dtype)]; }

}  // namespace

size_t byte_size(DType dtype) { return row(dtype).bytes; }
const char* hlo_name(DType dtype) { return row(dtype).hlo; }
const char* safetensors_name(DType dtype) { return row(dtype).safetensors; }

Result<DType> dtype_from_safetensors(std::string_view name) {
  for (const Row& r : kRows) {
    if (name == r.safetensors) return r.dtype;
  }
  return Failure{Code::kInvalidArgument,
                 "unknown safetensors element type '" + std::string(name) + "'"};
}

Result<DType> dtype_from_recipe(std::string_view name) {
  for (const Row& r : kRows) {
    if (name == r.recipe || name == r.hlo) return r.dtype;
  }
  return Failure{Code::kInvalidArgument, "unknown element type '" + std::string(name) +
                                             "'; use float32, bfloat16, float16 or float64"};
}

bool is_floating(DType dtype) { return dtype >= DType::kF16; }
bool is_integer(DType dtype) { return dtype > DType::kBool && dtype < DType::kF16; }
bool is_unsigned(DType dtype) { return dtype >= DType::kU8 && dtype <= DType::kU64; }

int64_t num_elements(const Dims& dims) {
  int64_t n = 1;
  for (int64_t d : dims) n *= d;
  return n;
}

std::string to_string(const Dims& dims) {
  std::string out = "[";
  for (size_t i = 0; i < dims.size(); ++i) {
    if (i > 0) out += ", ";
    out += std::to_string(dims[i]);
  }
  return out + "]";
}

}  // namespace espalier
