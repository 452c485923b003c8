// The layout of a token file (token_file.h), shared by its reader and its writer.
#pragma once

#include <bit>
#include <string>
#include <string_view>

#include "espalier/data/token_file.h"

namespace espalier::token_format {

static_assert(std::endian::native == std::endian::little, "the files are little-endian");

inline constexpr std::string_view kMagic = "ESPTOK1\n";
inline constexpr size_t kDigestAt = 16;
inline constexpr size_t kHeaderAt = 48;
inline constexpr size_t kTokensAt = 4096;

inline size_t stories_at(const TokenFile::Info& info) {
  const auto end = kTokensAt + static_cast<size_t>(info.token_count * info.token_bytes);
  return (end + 7) / 8 * 8;
}

// The header's JSON text.
std::string header_text(const TokenFile::Info& info);

}  // namespace espalier::token_format
