// Pre-tokenization: cuts text into the pieces inside which BPE merges, exactly as the published
// regular expressions do, by hand-written scanners: measured faster than PCRE2's compiled ones, and
// with the Unicode version of tiktoken's. A test holds the two equal.
//
// GPT-2:   '(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
// Llama 3: (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|
//           ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
// where \s is Unicode's White_Space, and (?i:'s) matches U+017F (long s) too.
#pragma once

#include <cstddef>
#include <string_view>

namespace espalier {

enum class PiecePattern { kGpt2, kLlama3 };

// End of the piece that begins at text[at]; the end of the text counts as the end of the input.
// Requires valid UTF-8 and `at` < text.size() on a piece's first byte. Thread-safe.
template <PiecePattern kPattern>
size_t piece_end(std::string_view text, size_t at);

// The first position p >= near (or text.size()) where both patterns always end a piece and where
// the pieces on either side do not depend on the other side.
size_t piece_cut_after(std::string_view text, size_t near);

}  // namespace espalier
