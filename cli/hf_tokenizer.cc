#include "cli/hf_tokenizer.h"

#include <nlohmann/json.hpp>
#include <unordered_map>
#include <vector>

#include "espalier/base/file.h"
#include "espalier/text/byte_alphabet.h"

namespace espalier {
namespace {

constexpr std::string_view kEndOfText = "<|endoftext|>";

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
  if (nlohmann::json::parse(stored, nullptr, false).contains("model")) {
    const nlohmann::json fast = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                                 {"model_max_length", max_len}};
    ESPALIER_TRY(write_file(folder / "tokenizer.json", stored));
    ESPALIER_TRY(write_file(folder / "tokenizer_config.json", fast.dump(2) + "\n"));
    return true;
  }
  const int32_t ranked = tokenizer.vocab_size() - 1;
  if (tokenizer.special(kEndOfText) != ranked) return false;

  std::vector<std::string> tokens;
  Ranks ranks;
  for (int32_t id = 0; id < ranked; ++id) {
    ESPALIER_ASSIGN(std::string bytes, tokenizer.decode({&id, 1}));
    ranks.emplace(bytes, id);
    tokens.push_back(std::move(bytes));
  }
  const auto& characters = byte_alphabet();
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
