// What stands where tokens are of no text: ids without a meaning.
#pragma once

#include <memory>
#include <string_view>

#include "espalier/text/tokenizer.h"

namespace espalier {

// Of data that is random tokens. encode() throws Error saying so; decode() gives the ids as decimal
// numbers with blanks between.
std::shared_ptr<const Tokenizer> no_tokenizer(int32_t vocab_size);

// Reads {"kind": "none", "vocab_size": N}, as serialize() writes it; anything else is kDataLoss
// naming `where`.
Result<std::shared_ptr<const Tokenizer>> parse_no_tokenizer(std::string_view json,
                                                            std::string_view where);

}  // namespace espalier
