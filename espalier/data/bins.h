// Token bins: data sets as folders of raw tokens, in nanoGPT's format or in llm.c's.
//
// nanoGPT's: train.bin and val.bin, tokens alone, little-endian u16 (u32 where the vocabulary has
// more than 65536 ids). Beside them `espalier prepare` writes meta.json, which says what they are;
// a folder of another program's, without it, is read too.
//
// llm.c's: files *.bin, each a header of 256 int32 (magic, version, number of tokens) and the
// tokens: magic 20240520, version 1: u16; magic 20240801, version 7: u32.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "espalier/base/error.h"
#include "espalier/data/token_run.h"
#include "espalier/text/tokenizer.h"

namespace espalier {

// What meta.json holds.
struct BinMeta {
  struct Split {
    int64_t tokens = 0;
    int64_t documents = 0;  // 0: a part of one text
    std::string sha256;     // of the whole file
  };
  std::string tokenizer;       // its name
  std::string tokenizer_text;  // Tokenizer::serialize()
  int64_t vocab_size = 0;
  int64_t token_bytes = 2;
  std::optional<int32_t> end_of_text;  // behind every document
  int64_t max_id = -1;                 // of both files; -1: no tokens
  Split train, val;
  std::vector<std::string> sources;
  uint64_t seed = 0;        // that drew the documents of val.bin
  double val_fraction = 0;  // of the documents, as asked for; 0.1 of one text that was cut
};

// For the char tokenizer also "stoi" (character: id) and "itos" (the characters by id), as in
// nanoGPT's meta.pkl.
std::string to_json(const BinMeta& meta, const Tokenizer& tokenizer);
// The meta.json of a folder whose files are being put in their places.
std::string incomplete_bins_json();
// kDataLoss naming the path where the text is not of this form, or incomplete_bins_json().
Result<BinMeta> parse_bin_meta(const std::string& json, const std::filesystem::path& path);

struct TokenBins {
  std::vector<TokenRun> train, val;  // llm.c: one a shard, by name; nanoGPT: at most one each
  std::shared_ptr<const Tokenizer> tokenizer;
  bool has_meta = false;
};

// Opens a folder with train.bin, or a folder, a glob pattern ("DIR/fineweb_*.bin") or a file of
// llm.c's; of these, the files with "val" in the name are the validation set.
//
// The tokenizer is the one that meta.json holds, else `tokenizer` by load_tokenizer(). Without
// meta.json nanoGPT's files are read as u16, or u32 where this tokenizer has more than 65536 ids.
// Missing: kNotFound. A file with a torn end, or with another number of tokens than its header or
// meta.json says: kDataLoss naming the file and both sizes.
Result<TokenBins> open_bins(const std::string& path, const std::string& tokenizer);

// The first token whose id is not below `vocab`, if any: names the file, the position and the id.
// Reads all tokens.
std::optional<std::string> first_id_outside(const std::vector<TokenRun>& runs, int64_t vocab);

// 64 hex digits that tell data sets apart: the SHA-256 of the sizes of all files and of their
// bytes, or of a file above 16 MiB, of 256 blocks of 64 KiB evenly spread over it, the first and
// the last among them. Names and places of the files do not matter.
std::string identity_of(const TokenBins& bins);

}  // namespace espalier
