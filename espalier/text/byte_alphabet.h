// The alphabet in which Hugging Face's files write byte strings.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

namespace espalier {

// GPT-2's bytes_to_unicode: by byte a character in UTF-8. Printable Latin-1 stands for itself, the
// other bytes, in order, for the characters from U+0100 on.
const std::array<std::string, 256>& byte_alphabet();

// The bytes that a text in this alphabet stands for; nothing where a character is not of it.
std::optional<std::string> bytes_spelled(std::string_view text);

}  // namespace espalier
