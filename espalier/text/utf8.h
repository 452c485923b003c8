// Decoding of UTF-8 that was checked before by validate_utf8().
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace espalier {

// One character: its code point and the bytes that it takes.
struct Utf8Char {
  uint32_t code_point;
  uint32_t size;
};

// The character that begins at text[at]. Requires valid UTF-8 and `at` on a character's first byte.
inline Utf8Char utf8_at(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<uint32_t>(static_cast<uint8_t>(text[i])); };
  const uint32_t first = byte(at);
  if (first < 0x80) return {first, 1};
  const uint32_t second = byte(at + 1) & 0x3f;
  if (first < 0xe0) return {(first & 0x1f) << 6 | second, 2};
  const uint32_t third = byte(at + 2) & 0x3f;
  if (first < 0xf0) return {(first & 0x0f) << 12 | second << 6 | third, 3};
  return {(first & 0x07) << 18 | second << 12 | third << 6 | (byte(at + 3) & 0x3f), 4};
}

// True for the bytes of a character that are not its first.
inline bool is_utf8_continuation(char byte) { return (static_cast<uint8_t>(byte) & 0xc0) == 0x80; }

// Appends a code point's UTF-8 form to `out` (anything with push_back of char).
template <class Out>
void append_utf8(uint32_t code_point, Out& out) {
  const auto put = [&](uint32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (code_point < 0x80) {
    put(code_point);
  } else if (code_point < 0x800) {
    put(0xc0 | code_point >> 6);
    put(0x80 | (code_point & 0x3f));
  } else if (code_point < 0x10000) {
    put(0xe0 | code_point >> 12);
    put(0x80 | (code_point >> 6 & 0x3f));
    put(0x80 | (code_point & 0x3f));
  } else {
    put(0xf0 | code_point >> 18);
    put(0x80 | (code_point >> 12 & 0x3f));
    put(0x80 | (code_point >> 6 & 0x3f));
    put(0x80 | (code_point & 0x3f));
  }
}

}  // namespace espalier
