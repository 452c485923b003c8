#include "espalier/train/checksum.h"

#include <array>

namespace espalier {
namespace {

using Table = std::array<uint32_t, 256>;

// Of a polynomial with its bits reversed.
constexpr Table make_table(uint32_t polynomial) {
  Table table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? polynomial : 0u);
    table[i] = crc;
  }
  return table;
}

uint32_t checksum(const Table& table, std::string_view bytes) {
  uint32_t crc = ~0u;
  for (const char c : bytes) crc = (crc >> 8) ^ table[(crc ^ static_cast<uint8_t>(c)) & 0xff];
  return ~crc;
}

}  // namespace

uint32_t crc32c(std::string_view bytes) {
  static constexpr Table kTable = make_table(0x82f63b78u);
  return checksum(kTable, bytes);
}

uint32_t crc32(std::string_view bytes) {
  static constexpr Table kTable = make_table(0xedb88320u);
  return checksum(kTable, bytes);
}

}  // namespace espalier
