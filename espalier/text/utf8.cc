#include "espalier/text/utf8.h"

#include <cstring>

#include "espalier/text/tokenizer.h"

namespace espalier {
namespace {

// Bytes of the well-formed character at text[at], 0 where there is none (Unicode, table 3-7).
size_t well_formed(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) -> uint8_t {
    return i < text.size() ? static_cast<uint8_t>(text[i]) : 0;
  };
  const auto in = [&](size_t i, uint8_t low, uint8_t high) {
    return byte(i) >= low && byte(i) <= high;
  };
  const uint8_t first = byte(at);
  if (first < 0x80) return 1;
  if (first < 0xc2 || first > 0xf4) return 0;
  if (first < 0xe0) return in(at + 1, 0x80, 0xbf) ? 2 : 0;
  if (first < 0xf0) {
    const uint8_t low = first == 0xe0 ? 0xa0 : 0x80;
    const uint8_t high = first == 0xed ? 0x9f : 0xbf;
    return in(at + 1, low, high) && in(at + 2, 0x80, 0xbf) ? 3 : 0;
  }
  const uint8_t low = first == 0xf0 ? 0x90 : 0x80;
  const uint8_t high = first == 0xf4 ? 0x8f : 0xbf;
  return in(at + 1, low, high) && in(at + 2, 0x80, 0xbf) && in(at + 3, 0x80, 0xbf) ? 4 : 0;
}

}  // namespace

Status validate_utf8(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    if (at + 8 <= text.size()) {
      uint64_t word;
      std::memcpy(&word, text.data() + at, 8);
      if ((word & 0x8080808080808080u) == 0) {
        at += 8;
        continue;
      }
    }
    const size_t size = well_formed(text, at);
    if (size == 0) {
      return Failure{Code::kInvalidArgument, "text is not valid UTF-8 at byte offset " +
                                                 std::to_string(at) +
                                                 ": convert it to UTF-8 (for example with iconv)"};
    }
    at += size;
  }
  return {};
}

}  // namespace espalier
