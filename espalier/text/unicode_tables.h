// Unicode 16 classes of code points, the version that tiktoken's regular expressions use.
#pragma once

#include <cstdint>
#include <span>

namespace espalier {

// Both ends belong to the range.
struct CodePointRange {
  uint32_t first, last;
};

// Sorted ranges that do not touch.
std::span<const CodePointRange> unicode_letters();      // \p{L}
std::span<const CodePointRange> unicode_numbers();      // \p{N}
std::span<const CodePointRange> unicode_white_space();  // \s: White_Space

}  // namespace espalier
