// Byte-level BPE tokenizers: GPT-2's and Llama 3's.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "espalier/text/tokenizer.h"

namespace espalier {

// From a rank file's text (see tokenizer.h for how the scheme is chosen). `name` is what name()
// gives. serialize() gives the name where `stored_by_name`, otherwise the rank file's text. A
// broken file is kDataLoss; the vocabulary of a scheme that is not known here is kUnimplemented.
Result<std::shared_ptr<const Tokenizer>> bpe_tokenizer(std::string rank_file, std::string name,
                                                       bool stored_by_name);

}  // namespace espalier
