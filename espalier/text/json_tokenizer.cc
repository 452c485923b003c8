#include "espalier/text/json_tokenizer.h"

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "espalier/text/tokenizer_json.h"

namespace espalier {
namespace {

// Finds literal tokens in a text: the leftmost, and the longest of those that begin there.
class Literals {
 public:
  struct Found {
    size_t at = 0, length = 0;
    int32_t id = -1;  // -1: none, and `at` is the text's end
  };

  void add(const AddedToken& token) {
    auto& list = by_first_[static_cast<uint8_t>(token.content[0])];
    list.push_back(token);
    std::stable_sort(list.begin(), list.end(), [](const AddedToken& a, const AddedToken& b) {
      return a.content.size() > b.content.size();
    });
  }
  Found find(std::string_view text) const {
    for (size_t at = 0; at < text.size(); ++at) {
      for (const AddedToken& token : by_first_[static_cast<uint8_t>(text[at])]) {
        if (text.substr(at).starts_with(token.content)) return {at, token.content.size(), token.id};
      }
    }
    return {text.size()};
  }

 private:
  std::array<std::vector<AddedToken>, 256> by_first_;
};

class JsonTokenizer final : public Tokenizer {
 public:
  JsonTokenizer(Merges merges, TokenizerJson file, std::string name, std::string serialized)
      : merges_(std::move(merges)),
        ids_(std::move(file.ids)),
        pattern_(file.pattern),
        add_prefix_space_(file.add_prefix_space),
        name_(std::move(name)),
        serialized_(std::move(serialized)) {
    for (size_t i = 0; i < ids_.size(); ++i) by_id_.emplace(ids_[i], merges_.bytes(int32_t(i)));
    for (const AddedToken& token : file.added) {
      literals_[token.normalized ? 1 : 0].add(token);
      specials_[token.content] = token.id;
      by_id_[token.id] = token.content;
      // A token that holds white space may lie across a place where pieces end.
      cuts_ &= token.content.find_first_of(" \t\r\n\v\f") == std::string::npos;
    }
    cuts_ &= !add_prefix_space_;
    for (const auto& [id, bytes] : by_id_) vocab_size_ = std::max(vocab_size_, id + 1);
  }

  std::string_view name() const override { return name_; }
  int32_t vocab_size() const override { return vocab_size_; }
  std::optional<int32_t> special(std::string_view token) const override {
    const auto found = specials_.find(token);
    if (found == specials_.end()) return std::nullopt;
    return found->second;
  }
  std::optional<int32_t> end_of_text() const override {
    for (const char* token : {"<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>"}) {
      if (const auto id = special(token)) return id;
    }
    return std::nullopt;
  }
  Result<std::string> serialize() const override { return serialized_; }

  std::vector<int32_t> encode(std::string_view text, bool allow_special) const override {
    validate_utf8(text).value_or_throw();
    std::vector<int32_t> ids;
    ids.reserve(text.size() / 3 + 8);
    encode_from(allow_special ? 0 : literals_.size(), text, ids);
    return ids;
  }

  Result<std::string> decode(std::span<const int32_t> ids) const override {
    std::string out;
    out.reserve(ids.size() * 5);
    for (size_t i = 0; i < ids.size(); ++i) {
      const auto found = by_id_.find(ids[i]);
      if (found == by_id_.end()) {
        return Failure{Code::kInvalidArgument,
                       "token id " + std::to_string(ids[i]) + " at position " + std::to_string(i) +
                           " is not in the vocabulary of " + name_ + ", whose ids are below " +
                           std::to_string(vocab_size_)};
      }
      out += found->second;
    }
    return out;
  }

  size_t cut_after(std::string_view text, size_t near) const override {
    if (near == 0) return 0;
    return cuts_ ? piece_cut_after(text, near) : text.size();
  }

 private:
  // Literals of this group and those behind it, then pieces.
  void encode_from(size_t group, std::string_view text, std::vector<int32_t>& ids) const {
    if (group == literals_.size()) return encode_ordinary(text, ids);
    while (!text.empty()) {
      const Literals::Found found = literals_[group].find(text);
      encode_from(group + 1, text.substr(0, found.at), ids);
      if (found.id >= 0) ids.push_back(found.id);
      text.remove_prefix(found.at + found.length);
    }
  }

  void encode_ordinary(std::string_view text, std::vector<int32_t>& ids) const {
    if (text.empty()) return;
    const size_t first = ids.size();
    std::string prefixed;
    if (add_prefix_space_ && text[0] != ' ') text = prefixed.append(" ").append(text);
    for (size_t at = 0; at < text.size();) {
      const size_t end = pattern_ == PiecePattern::kGpt2
                             ? piece_end<PiecePattern::kGpt2>(text, at)
                             : piece_end<PiecePattern::kLlama3>(text, at);
      merges_.encode(text.substr(at, end - at), ids);
      at = end;
    }
    for (size_t i = first; i < ids.size(); ++i) ids[i] = ids_[static_cast<size_t>(ids[i])];
  }

  Merges merges_;
  std::vector<int32_t> ids_;  // by index into the merges' tokens
  PiecePattern pattern_;
  bool add_prefix_space_;
  bool cuts_ = true;
  std::string name_, serialized_;
  std::array<Literals, 2> literals_;
  std::map<std::string, int32_t, std::less<>> specials_;
  std::unordered_map<int32_t, std::string> by_id_;
  int32_t vocab_size_ = 0;
};

}  // namespace

Result<std::shared_ptr<const Tokenizer>> json_tokenizer(const nlohmann::json& json,
                                                        std::string text, std::string where) {
  ESPALIER_ASSIGN(TokenizerJson file, read_tokenizer_json(json, where));
  ESPALIER_ASSIGN(Merges merges,
                  Merges::create(file.tokens, file.merges, file.ignore_merges, where));
  return std::shared_ptr<const Tokenizer>(std::make_shared<JsonTokenizer>(
      std::move(merges), std::move(file), std::move(where), std::move(text)));
}

}  // namespace espalier
