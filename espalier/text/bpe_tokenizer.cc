#include "espalier/text/bpe_tokenizer.h"

#include <algorithm>
#include <map>
#include <utility>

#include "espalier/text/merges.h"
#include "espalier/text/pieces.h"

namespace espalier {
namespace {

constexpr int32_t kLlama3Ranks = 128000;

// Special tokens in the order of their ids. All begin with "<|", end with "|>" at its first
// occurrence, and hold no blank: cut_after() and find_special() rely on that.
struct Specials {
  std::vector<std::string> names;
  std::string end_of_text;
};

Specials gpt2_specials() { return {{"<|endoftext|>"}, "<|endoftext|>"}; }

// As in llama-models' tokenizer: twelve named tokens, and reserved ones up to 256.
Specials llama3_specials() {
  Specials out{{"<|begin_of_text|>", "<|end_of_text|>", "<|reserved_special_token_0|>",
                "<|reserved_special_token_1|>", "<|finetune_right_pad_id|>", "<|step_id|>",
                "<|start_header_id|>", "<|end_header_id|>", "<|eom_id|>", "<|eot_id|>",
                "<|python_tag|>", "<|image|>"},
               "<|end_of_text|>"};
  for (int i = 2; out.names.size() < 256; ++i) {
    out.names.push_back("<|reserved_special_token_" + std::to_string(i) + "|>");
  }
  return out;
}

class BpeTokenizer final : public Tokenizer {
 public:
  BpeTokenizer(Merges merges, std::string name, std::string serialized)
      : merges_(std::move(merges)),
        name_(std::move(name)),
        serialized_(std::move(serialized)),
        pattern_(merges_.size() == kLlama3Ranks ? PiecePattern::kLlama3 : PiecePattern::kGpt2) {
    Specials specials = pattern_ == PiecePattern::kLlama3 ? llama3_specials() : gpt2_specials();
    special_names_ = std::move(specials.names);
    for (size_t i = 0; i < special_names_.size(); ++i) {
      specials_.emplace(special_names_[i], merges_.size() + static_cast<int32_t>(i));
      longest_special_ = std::max(longest_special_, special_names_[i].size());
    }
    end_of_text_ = specials_.find(specials.end_of_text)->second;
  }

  std::string_view name() const override { return name_; }
  int32_t vocab_size() const override {
    return merges_.size() + static_cast<int32_t>(special_names_.size());
  }
  std::optional<int32_t> special(std::string_view token) const override {
    const auto found = specials_.find(token);
    if (found == specials_.end()) return std::nullopt;
    return found->second;
  }
  std::optional<int32_t> end_of_text() const override { return end_of_text_; }
  Result<std::string> serialize() const override { return serialized_; }

  std::vector<int32_t> encode(std::string_view text, bool allow_special) const override {
    validate_utf8(text).value_or_throw();
    std::vector<int32_t> ids;
    ids.reserve(text.size() / 3 + 8);
    while (!text.empty()) {
      const Found found = allow_special ? find_special(text) : Found{text.size(), 0, -1};
      const std::string_view ordinary = text.substr(0, found.at);
      if (pattern_ == PiecePattern::kGpt2) {
        encode_ordinary<PiecePattern::kGpt2>(ordinary, ids);
      } else {
        encode_ordinary<PiecePattern::kLlama3>(ordinary, ids);
      }
      if (found.id >= 0) ids.push_back(found.id);
      text.remove_prefix(found.at + found.length);
    }
    return ids;
  }

  Result<std::string> decode(std::span<const int32_t> ids) const override {
    std::string out;
    out.reserve(ids.size() * 5);
    for (size_t i = 0; i < ids.size(); ++i) {
      const int32_t id = ids[i];
      if (id < 0 || id >= vocab_size()) {
        return Failure{Code::kInvalidArgument,
                       "token id " + std::to_string(id) + " at position " + std::to_string(i) +
                           " is outside the vocabulary of " + name_ + " (0 to " +
                           std::to_string(vocab_size() - 1) + ")"};
      }
      out += id < merges_.size() ? merges_.bytes(id) : special_names_[id - merges_.size()];
    }
    return out;
  }

  // No special token holds a blank, so none lies across a cut.
  size_t cut_after(std::string_view text, size_t near) const override {
    return near == 0 ? 0 : piece_cut_after(text, near);
  }

 private:
  struct Found {
    size_t at, length;
    int32_t id;  // -1: none, and `at` is the text's end
  };

  Found find_special(std::string_view text) const {
    for (size_t at = text.find("<|"); at != std::string_view::npos; at = text.find("<|", at + 1)) {
      const std::string_view window = text.substr(at, longest_special_);
      const size_t close = window.find("|>", 2);
      if (close == std::string_view::npos) continue;
      const auto found = specials_.find(window.substr(0, close + 2));
      if (found != specials_.end()) return {at, close + 2, found->second};
    }
    return {text.size(), 0, -1};
  }

  template <PiecePattern kPattern>
  void encode_ordinary(std::string_view text, std::vector<int32_t>& ids) const {
    for (size_t at = 0; at < text.size();) {
      const size_t end = piece_end<kPattern>(text, at);
      merges_.encode(text.substr(at, end - at), ids);
      at = end;
    }
  }

  Merges merges_;
  std::string name_, serialized_;
  PiecePattern pattern_;
  std::vector<std::string> special_names_;  // by id, from merges_.size() on
  std::map<std::string, int32_t, std::less<>> specials_;
  size_t longest_special_ = 0;
  int32_t end_of_text_ = 0;
};

}  // namespace

Result<std::shared_ptr<const Tokenizer>> bpe_tokenizer(std::string rank_file, std::string name,
                                                       bool stored_by_name) {
  ESPALIER_ASSIGN(Merges merges, Merges::parse(rank_file, name));
  // Read by GPT-2's pattern these would give ids that look right and are not.
  for (const auto& [ranks, scheme] : {std::pair{100256, "cl100k_base"}, {199998, "o200k_base"}}) {
    if (merges.size() == ranks) {
      return Failure{Code::kUnimplemented, name + ": a rank file of " + std::to_string(ranks) +
                                               " tokens is " + scheme +
                                               "'s, whose pattern is not known here; use gpt2 or "
                                               "llama3"};
    }
  }
  std::string serialized = stored_by_name ? name : std::move(rank_file);
  return std::shared_ptr<const Tokenizer>(
      std::make_shared<BpeTokenizer>(std::move(merges), std::move(name), std::move(serialized)));
}

}  // namespace espalier
