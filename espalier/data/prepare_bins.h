// prepare_bins: texts made into token bins (bins.h), on all cores.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/data/bins.h"
#include "espalier/data/token_file.h"

namespace espalier {

struct BinOptions {
  std::string tokenizer = "gpt2";  // "gpt2", "llama3", "char" or the path of a rank file
  std::string text_key = "text";   // see DocumentOptions, these three
  bool trim = true;
  bool web_text = false;
  double val_fraction = 0.0005;  // of the documents, in [0, 1]; nanoGPT's
  uint64_t seed = 0;             // draws them
  int threads = 0;               // 0: one a core
  // What is done ("reading", "tokenizing"), bytes of the files done, and all; from the calling
  // thread.
  std::function<void(std::string_view, uint64_t, uint64_t)> progress = nullptr;
  std::function<bool()> stop = nullptr;  // true: give up with kCancelled
};

// Writes train.bin, val.bin and meta.json into `folder`, or nothing. The files are texts or JSON
// lines, also packed and in tars (text_file.h, documents.h).
//
// Where they hold one text, neither JSON lines nor with separators, it is cut as nanoGPT's
// Shakespeare scripts do: of n characters (code points) the first int(n * 0.9) go to train.bin, the
// rest to val.bin, each tokenized for itself, and no end-of-text token is added. Otherwise every
// document's tokens are followed by the tokenizer's end-of-text token, if it has one, in the order
// of the files, as nanoGPT's OpenWebText script does; a fraction of the documents goes to val.bin
// (ValDraw in bin_writer.h), at least one where there are two. Special tokens written in a text are
// ordinary text. "char": the alphabet is that of all documents, sorted.
//
// The files are read once more beforehand where one text or an alphabet may have to be found out.
//
// Memory, whatever the size of the files: for each thread, and for two more, a piece of a text
// (1 MiB), up to 6 bytes of ids for each of its bytes; and what DocumentStream needs.
Result<BinMeta> prepare_bins(const std::vector<std::filesystem::path>& files,
                             const BinOptions& options, const std::filesystem::path& folder);

// The same from stories that are tokenized already (both files have stories): with `val`, they are
// val.bin, otherwise it is drawn by the options.
Result<BinMeta> bins_of_stories(const TokenFile& train, const TokenFile* val,
                                std::shared_ptr<const Tokenizer> tokenizer,
                                const BinOptions& options, const std::filesystem::path& folder);

}  // namespace espalier
