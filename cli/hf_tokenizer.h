// A tokenizer's files in a Hugging Face folder.
#pragma once

#include <filesystem>

#include "espalier/text/tokenizer.h"

namespace espalier {

// Writes tokenizer.txt, which load_hf() reads, and what transformers read: of a tokenizer that came
// from a tokenizer.json that file again; for one of GPT-2's scheme vocab.json, merges.txt and
// tokenizer_config.json: byte strings are written in
// GPT-2's alphabet of 256 printable characters, and the two parts of each token are those that the
// ranks before its own leave of it. True where these were written. `max_len`: the model's longest
// sequence.
Result<bool> write_tokenizer_files(const std::filesystem::path& folder, const Tokenizer& tokenizer,
                                   int64_t max_len);

}  // namespace espalier
