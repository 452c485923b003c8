// TokenFile: a text tokenized once, kept in a memory-mapped file.
//
// The file, all numbers little-endian:
//   byte 0     8 bytes   magic "ESPTOK1\n"
//   byte 8     u64       length of the header
//   byte 16    32 bytes  SHA-256 of the header
//   byte 48              header: a JSON object, the fields of TokenFile::Info
//   byte 4096            tokens: u16 (vocabulary up to 65536) or u32 each
//   next multiple of 8   with stories: story_count + 1 u64 positions of tokens; story i is
//                        tokens[at[i], at[i + 1]), its end-of-text token the last
// A text with separators is kept as stories; one without is one run of tokens.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>

#include "espalier/base/error.h"
#include "espalier/base/file.h"
#include "espalier/data/source_text.h"
#include "espalier/data/token_run.h"
#include "espalier/text/tokenizer.h"

namespace espalier {

struct TokenizeOptions {
  bool trim = true;  // see DataConfig::trim
  int threads = 0;   // 0: one a core
  // Called from the calling thread with bytes of text done, and all.
  std::function<void(uint64_t, uint64_t)> progress = nullptr;
};

// Copies share the map. Reading from several threads is safe.
class TokenFile {
 public:
  struct Info {
    std::string tokenizer;         // its name
    std::string tokenizer_digest;  // of its vocabulary: tokenizer_digest()
    int64_t vocab_size = 0;
    int64_t token_bytes = 2;  // 2 or 4
    int64_t token_count = 0;
    int64_t story_count = 0;  // 0: a text without separators
    int64_t max_id = 0;
    bool trim = true;
    std::string source;  // its name when tokenized
    int64_t source_size = 0;
    int64_t source_modified_ns = 0;
    std::string source_sha256;
    std::string content_sha256;  // of all bytes from 4096 on
  };

  // Maps and checks a file: kDataLoss where truncated or altered (both checksums are compared),
  // kNotFound where missing, kInvalidArgument where it is something else.
  static Result<TokenFile> open(const std::filesystem::path& path);

  const Info& info() const { return info_; }
  const std::filesystem::path& path() const { return tokens_.file.path(); }
  int64_t size() const { return info_.token_count; }
  bool has_stories() const { return info_.story_count > 0; }
  // First token of story i; i = story_count gives the end of the last.
  int64_t story_begin(int64_t i) const {
    return static_cast<int64_t>(stories_[static_cast<size_t>(i)]);
  }
  // Copies tokens[begin, begin + out.size()), all within size().
  void copy(int64_t begin, std::span<int32_t> out) const { tokens_.copy(begin, out); }
  // tokens[begin, end).
  TokenRun run(int64_t begin, int64_t end) const {
    return {tokens_.file, tokens_.tokens + begin * tokens_.token_bytes, end - begin,
            tokens_.token_bytes};
  }

  // kInvalidArgument where a token's id is not below a model's vocabulary size; the message names
  // the id, its position and both sizes.
  Status check_vocab(int64_t model_vocab) const;

 private:
  Info info_;
  TokenRun tokens_;
  std::span<const uint64_t> stories_;
};

// Identifies a tokenizer's vocabulary and splitting, whatever its name or path: 64 hex digits.
std::string tokenizer_digest(const Tokenizer& tokenizer);

// Where a source's tokens are kept in a folder: "STEM.TOKENIZER.HASH.tokens"; the hash tells apart
// sources of the same stem.
std::filesystem::path token_file_path(const SourceText& source, const Tokenizer& tokenizer,
                                      const TokenizeOptions& options,
                                      const std::filesystem::path& folder);

// Tokenizes a source into a file, replacing one that is there. A text that is not UTF-8, has no
// token, or holds what the tokenizer cannot encode is kInvalidArgument.
Result<TokenFile> build_token_file(const SourceText& source, const Tokenizer& tokenizer,
                                   const TokenizeOptions& options,
                                   const std::filesystem::path& path);

// The tokens of a source: from beside it or from the cache folder when they are still those of this
// text and tokenizer (same size and time of change, or same SHA-256), otherwise built into the
// cache folder. A damaged file is reported by a warning and built again.
Result<TokenFile> open_or_build(const SourceText& source, const Tokenizer& tokenizer,
                                const TokenizeOptions& options,
                                const std::filesystem::path& cache_folder);

}  // namespace espalier
