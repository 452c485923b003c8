// Byte-level BPE tokenizers from Hugging Face's tokenizer.json.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "espalier/text/tokenizer.h"

namespace espalier {

// `text` is the file that `json` was read from, which serialize() gives back; `where` its path,
// which is name(). Ids are those of `tokenizers` with add_special_tokens = False. end_of_text() is
// the first of <|endoftext|>, <|end_of_text|>, </s> and <eos> among the added tokens. Failures as
// read_tokenizer_json() gives them.
Result<std::shared_ptr<const Tokenizer>> json_tokenizer(const nlohmann::json& json,
                                                        std::string text, std::string where);

}  // namespace espalier
