// Tokenizers: UTF-8 text to token ids and back.
//
// Vocabulary of this folder: a *rank file* lists the byte strings of a byte-level BPE vocabulary,
// one `base64 rank` a line; the rank is both the token's id and its merge priority. A *piece* is
// one match of the pre-tokenization pattern: merges never cross a piece's border. A *special*
// token is matched literally in the text before any piece is.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/base/error.h"

namespace espalier {

// Immutable once loaded; every member may be called from several threads at once.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // "gpt2", "llama3", "char", or the path of the rank file.
  virtual std::string_view name() const = 0;

  // Number of ids, special tokens among them: 50257 (gpt2), 128256 (llama3), or the number of
  // distinct characters. Ids are 0 .. vocab_size() - 1.
  virtual int32_t vocab_size() const = 0;

  // Ids of UTF-8 text. Where allow_special, special tokens such as <|endoftext|> written in the
  // text become their ids; otherwise they are ordinary text. Throws Error (kInvalidArgument),
  // naming the byte offset, when the text is not valid UTF-8 or, for char, holds a character that
  // is not in the alphabet.
  virtual std::vector<int32_t> encode(std::string_view text, bool allow_special = true) const = 0;

  // The exact bytes that the ids stand for (single tokens may be parts of a character, so the
  // bytes of a part of a text need not be valid UTF-8). An id outside the vocabulary is
  // kInvalidArgument, naming the id and its position.
  virtual Result<std::string> decode(std::span<const int32_t> ids) const = 0;

  // The id of a special token such as "<|eot_id|>".
  virtual std::optional<int32_t> special(std::string_view token) const = 0;

  // The token between documents: <|endoftext|> (gpt2), <|end_of_text|> (llama3), none for char.
  virtual std::optional<int32_t> end_of_text() const = 0;

  // What a run's folder stores so that text can be made without the training data: for char a JSON
  // object that holds the alphabet, otherwise the name. parse_tokenizer() reads it back.
  virtual Result<std::string> serialize() const = 0;

  // The first position p >= near (or text.size()) at which the text may be cut:
  // encode(text[0, p)) followed by encode(text[p, end)) equals encode(text). The text is valid
  // UTF-8, near <= text.size().
  virtual size_t cut_after(std::string_view text, size_t near) const = 0;
};

// "gpt2" and "llama3" read their rank files from the folder that `./dev setup` fills
// (text/gpt2.tiktoken and text/llama3.model under $ESPALIER_DEPS). Anything else is a path: to a
// rank file or to a file with serialize()'s text. A rank file of 128000 ranks is read as Llama 3's
// (its pattern and special tokens); others as GPT-2's, with <|endoftext|> after the last rank.
Result<std::shared_ptr<const Tokenizer>> load_tokenizer(const std::string& name_or_path);

// Inverse of Tokenizer::serialize().
Result<std::shared_ptr<const Tokenizer>> parse_tokenizer(std::string_view serialized);

// nanoGPT's character tokenizer: the alphabet is the sorted set of the text's characters (Unicode
// code points), an id is a position in it. Throws Error naming the byte offset when the text is not
// valid UTF-8.
std::shared_ptr<const Tokenizer> char_tokenizer(std::string_view text);

// kInvalidArgument naming the byte offset of the first byte that is not part of a well-formed
// UTF-8 character (RFC 3629: no surrogates, nothing above U+10FFFF, no overlong forms).
Status validate_utf8(std::string_view text);

// As tokenizer.encode(text, allow_special), by up to `threads` threads (0: one a core): the text is
// cut at places where the result is provably the same. Throws as encode does, with offsets into
// the whole text.
std::vector<int32_t> encode_parallel(const Tokenizer& tokenizer, std::string_view text,
                                     int threads = 0, bool allow_special = true);

}  // namespace espalier
