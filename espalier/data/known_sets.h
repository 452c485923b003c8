// Known sets: published data sets, their files, and where they are fetched from.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace espalier {

struct KnownFile {
  std::string data_set, split, file;
  // As the set's repository states it (Git LFS), or of a copy that was looked at. Empty where none
  // is known beforehand: download() then compares with the digest that the server names.
  std::string sha256;
  uint64_t size = 0;  // 0: not known beforehand
};

// "tinystories" (train, valid), "shakespeare" (Karpathy's 1 MB of plays), "openwebtext" (21 tars)
// or "fineweb10B" (FineWeb tokenized for GPT-2 in llm.c's shards: val 0 and train 1 to 103, of
// 100 million tokens); empty for another name.
std::vector<KnownFile> known_files(std::string_view data_set);
// The folder's URL, without a slash at its end; empty for another name. Fixed to a revision where
// the publisher has such.
std::string known_url(std::string_view data_set);

}  // namespace espalier
