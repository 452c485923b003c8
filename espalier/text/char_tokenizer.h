// The stored form of char_tokenizer() (declared in tokenizer.h).
#pragma once

#include <memory>
#include <string_view>

#include "espalier/text/tokenizer.h"

namespace espalier {

// Reads {"kind": "char", "alphabet": "..."}: the characters in the order of their ids, each once,
// sorted by code point. `where` names the file in messages; anything else is kDataLoss.
Result<std::shared_ptr<const Tokenizer>> parse_char_tokenizer(std::string_view json,
                                                              std::string_view where);

}  // namespace espalier
