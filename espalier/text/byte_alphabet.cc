#include "espalier/text/byte_alphabet.h"

#include "espalier/text/utf8.h"

namespace espalier {
namespace {

constexpr uint32_t kLast = 0x143;  // the highest character

bool is_printable(uint32_t b) {
  return (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || (b >= 174 && b <= 255);
}

// Character codes by byte.
std::array<uint32_t, 256> codes() {
  std::array<uint32_t, 256> out{};
  uint32_t next = 256;
  for (uint32_t b = 0; b < 256; ++b) out[b] = is_printable(b) ? b : next++;
  return out;
}

}  // namespace

const std::array<std::string, 256>& byte_alphabet() {
  static const std::array<std::string, 256> characters = [] {
    std::array<std::string, 256> out;
    const auto by_byte = codes();
    for (size_t b = 0; b < 256; ++b) append_utf8(by_byte[b], out[b]);
    return out;
  }();
  return characters;
}

std::optional<std::string> bytes_spelled(std::string_view text) {
  static const std::array<int, kLast + 1> bytes = [] {
    std::array<int, kLast + 1> out{};
    out.fill(-1);
    const auto by_byte = codes();
    for (int b = 0; b < 256; ++b) out[by_byte[static_cast<size_t>(b)]] = b;
    return out;
  }();
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const Utf8Char c = utf8_at(text, at);
    if (c.code_point > kLast || bytes[c.code_point] < 0) return std::nullopt;
    out.push_back(static_cast<char>(bytes[c.code_point]));
    at += c.size;
  }
  return out;
}

}  // namespace espalier
