// The two 32-bit cyclic redundancy checks of the files that other programs read.
#pragma once

#include <cstdint>
#include <string_view>

namespace espalier {

// CRC-32C of some bytes (Castagnoli polynomial, RFC 3720): TensorBoard's event files.
uint32_t crc32c(std::string_view bytes);
// CRC-32 of some bytes (IEEE 802.3, as zlib's): Weights & Biases' logs.
uint32_t crc32(std::string_view bytes);

}  // namespace espalier
