#include "espalier/checkpoint/convert.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace espalier {
namespace {

float from_bf16(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

// IEEE 754 binary16: 1 sign, 5 exponent (bias 15) and 10 fraction bits.
float from_f16(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1fu, fraction = bits & 0x3ffu;
  if (exponent == 0) {
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
  }
  // 112 is the difference of the biases.
  const uint32_t wide = exponent == 0x1f ? 0xffu : exponent + 112;
  return std::bit_cast<float>(sign | wide << 23 | fraction << 13);
}

template <class T, class Convert>
void each(std::span<const std::byte> in, std::span<float> out, Convert convert) {
  const auto* from = reinterpret_cast<const T*>(in.data());
  for (size_t i = 0; i < out.size(); ++i) out[i] = convert(from[i]);
}

uint16_t to_bf16(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  // A NaN whose fraction is in the lower half alone would become infinite.
  if (std::isnan(x)) return static_cast<uint16_t>(bits >> 16 | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}

}  // namespace

void f32_from(DType from, std::span<const std::byte> in, std::span<float> out) {
  if (in.size() != out.size() * byte_size(from)) {
    throw Error("f32_from needs as many elements as it makes, got " + std::to_string(in.size()) +
                " bytes of " + hlo_name(from) + " for " + std::to_string(out.size()) + " elements");
  }
  switch (from) {
    case DType::kF16:
      return each<uint16_t>(in, out, from_f16);
    case DType::kBF16:
      return each<uint16_t>(in, out, from_bf16);
    case DType::kF32:
      if (!in.empty()) std::memcpy(out.data(), in.data(), in.size());
      return;
    case DType::kF64:
      return each<double>(in, out, [](double x) { return static_cast<float>(x); });
    default:
      throw Error(std::string("f32_from needs a floating element type, got ") + hlo_name(from));
  }
}

void convert_floats(DType from, std::span<const std::byte> in, DType to, std::span<std::byte> out) {
  if (to != DType::kF32 && to != DType::kBF16) {
    throw Error(std::string("convert_floats makes f32 or bf16, not ") + hlo_name(to));
  }
  const size_t count = out.size() / byte_size(to);
  if (to == DType::kF32) return f32_from(from, in, {reinterpret_cast<float*>(out.data()), count});
  // A block at a time, so that no f32 copy of a large array is made.
  constexpr size_t kBlock = 1 << 14;
  std::vector<float> wide(std::min(kBlock, count));
  auto* narrow = reinterpret_cast<uint16_t*>(out.data());
  const size_t width = byte_size(from);
  for (size_t at = 0; at < count; at += wide.size()) {
    wide.resize(std::min(wide.size(), count - at));
    f32_from(from, in.subspan(at * width, wide.size() * width), wide);
    for (size_t i = 0; i < wide.size(); ++i) narrow[at + i] = to_bf16(wide[i]);
  }
}

}  // namespace espalier
