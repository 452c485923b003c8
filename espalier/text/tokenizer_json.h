// What a Hugging Face tokenizer.json says, where it describes a byte-level BPE.
//
// Format: the serialized form of huggingface/tokenizers (version "1.0").
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "espalier/base/error.h"
#include "espalier/text/merges.h"
#include "espalier/text/pieces.h"

namespace espalier {

// A token that is matched literally in the text.
struct AddedToken {
  std::string content;
  int32_t id = 0;
  bool normalized = false;  // matched after those that are not
};

struct TokenizerJson {
  std::vector<std::string> tokens;   // byte strings of the vocabulary, added tokens left out
  std::vector<int32_t> ids;          // of each
  std::vector<Merges::Pair> merges;  // of indices into `tokens`
  bool ignore_merges = false;        // a piece that is a token as a whole is not merged
  std::vector<AddedToken> added;
  PiecePattern pattern = PiecePattern::kGpt2;
  bool add_prefix_space = false;  // in front of each text between added tokens
};

// What is not of a byte-level BPE with GPT-2's or Llama 3's pattern is kUnimplemented naming the
// field; a broken file is kDataLoss. `where` names the file. What the file says of sequences
// (post_processor, truncation, padding) is left out: encoding adds no tokens.
Result<TokenizerJson> read_tokenizer_json(const nlohmann::json& json, const std::string& where);

}  // namespace espalier
