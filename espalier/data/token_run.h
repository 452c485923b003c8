// TokenRun: consecutive tokens in a mapped file.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <span>

#include "espalier/base/file.h"

namespace espalier {

static_assert(std::endian::native == std::endian::little, "the files are little-endian");

// Copies share the map. Reading from several threads is safe.
struct TokenRun {
  MappedFile file;
  const std::byte* tokens = nullptr;  // in the map
  int64_t count = 0;
  int64_t token_bytes = 2;  // 2 or 4

  // Copies tokens [begin, begin + out.size()), all within count. An id above 2^31 - 1 becomes
  // negative.
  void copy(int64_t begin, std::span<int32_t> out) const {
    if (token_bytes == 4) {
      std::memcpy(out.data(), tokens + begin * 4, out.size_bytes());
      return;
    }
    const auto* from = reinterpret_cast<const uint16_t*>(tokens) + begin;
    for (size_t i = 0; i < out.size(); ++i) out[i] = from[i];
  }
};

}  // namespace espalier
