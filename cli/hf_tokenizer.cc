#include "cli/hf_tokenizer.h"

#include <array>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <vector>

#include "espalier/base/file.h"

namespace espalier {
namespace {

constexpr std::string_view kEndOfText = "<|endoftext|>";

// A character below U+0800 in UTF-8.
std::string utf8(uint32_t code) {
  if (code < 0x80) return std::string(1, static_cast<char>(code));
  return {static_cast<char>(0xc0 | (code >> 6)), static_cast<char>(0x80 | (code & 0x3f))};
}

// GPT-2's bytes_to_unicode: printable Latin-1 stands for itself, the other bytes, in order, for the
// characters from U+0100 on.
std::array<std::string, 256> alphabet() {
  std::array<std::string, 256> out;
  uint32_t next = 256;
  for (uint32_t b = 0; b < 256; ++b) {
    const bool printable = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
    out[b] = utf8(printable ? b : next++);
  }
  return out;
}

using Ranks = std::unordered_map<std::string, int32_t>;

// What merging by ranks below `limit` leaves of a byte string.
std::vector<std::string> parts_below(const std::string& bytes, const Ranks& ranks, int32_t limit) {
  std::vector<std::string> parts;
  for (const char c : bytes) parts.emplace_back(1, c);
  while (parts.size() > 1) {
    int32_t lowest = limit;
    size_t at = 0;
    for (size_t i = 0; i + 1 < parts.size(); ++i) {
      const auto found = ranks.find(parts[i] + parts[i + 1]);
      if (found == ranks.end() || found->second >= lowest) continue;
      lowest = found->second;
      at = i;
    }
    if (lowest == limit) break;
    parts[at] += parts[at + 1];
    parts.erase(parts.begin() + static_cast<int64_t>(at) + 1);
  }
  return parts;
}

}  // namespace

Result<bool> write_tokenizer_files(const std::filesystem::path& folder, const Tokenizer& tokenizer,
                                   int64_t max_len) {
  ESPALIER_ASSIGN(const std::string stored, tokenizer.serialize());
  ESPALIER_TRY(write_file(folder / "tokenizer.txt", stored));
  const int32_t ranked = tokenizer.vocab_size() - 1;
  if (tokenizer.special(kEndOfText) != ranked) return false;

  std::vector<std::string> tokens;
  Ranks ranks;
  for (int32_t id = 0; id < ranked; ++id) {
    ESPALIER_ASSIGN(std::string bytes, tokenizer.decode({&id, 1}));
    ranks.emplace(bytes, id);
    tokens.push_back(std::move(bytes));
  }
  const std::array<std::string, 256> characters = alphabet();
  const auto spelled = [&](const std::string& bytes) {
    std::string out;
    for (const char c : bytes) out += characters[static_cast<unsigned char>(c)];
    return out;
  };
  nlohmann::json vocabulary = nlohmann::json::object();
  std::string merges = "#version: 0.2\n";
  for (int32_t id = 0; id < ranked; ++id) {
    const std::string& token = tokens[static_cast<size_t>(id)];
    vocabulary[spelled(token)] = id;
    if (token.size() == 1) continue;
    const std::vector<std::string> parts = parts_below(token, ranks, id);
    if (parts.size() != 2) return false;  // not made by merges alone
    merges += spelled(parts[0]) + " " + spelled(parts[1]) + "\n";
  }
  vocabulary[std::string(kEndOfText)] = ranked;
  const nlohmann::json config = {{"tokenizer_class", "GPT2Tokenizer"},
                                 {"model_max_length", max_len},
                                 {"add_prefix_space", false},
                                 {"bos_token", kEndOfText},
                                 {"eos_token", kEndOfText},
                                 {"unk_token", kEndOfText}};
  ESPALIER_TRY(write_file(folder / "vocab.json", vocabulary.dump() + "\n"));
  ESPALIER_TRY(write_file(folder / "merges.txt", merges));
  ESPALIER_TRY(write_file(folder / "tokenizer_config.json", config.dump(2) + "\n"));
  return true;
}

}  // namespace espalier
