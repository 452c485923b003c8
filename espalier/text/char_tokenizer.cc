#include "espalier/text/char_tokenizer.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "espalier/text/utf8.h"

namespace espalier {
namespace {

class CharTokenizer final : public Tokenizer {
 public:
  // The alphabet is sorted and has no code point twice.
  explicit CharTokenizer(std::vector<uint32_t> alphabet) : alphabet_(std::move(alphabet)) {
    std::fill(std::begin(ascii_), std::end(ascii_), -1);
    for (size_t id = 0; id < alphabet_.size(); ++id) {
      if (alphabet_[id] < 128) ascii_[alphabet_[id]] = static_cast<int32_t>(id);
    }
  }

  std::string_view name() const override { return "char"; }
  int32_t vocab_size() const override { return static_cast<int32_t>(alphabet_.size()); }
  std::optional<int32_t> special(std::string_view) const override { return std::nullopt; }
  std::optional<int32_t> end_of_text() const override { return std::nullopt; }

  std::vector<int32_t> encode(std::string_view text, bool) const override {
    validate_utf8(text).value_or_throw();
    std::vector<int32_t> ids;
    ids.reserve(text.size());
    for (size_t at = 0; at < text.size();) {
      const Utf8Char c = utf8_at(text, at);
      const int32_t id = id_of(c.code_point);
      if (id < 0) {
        throw Error("character '" + std::string(text.substr(at, c.size)) + "' at byte offset " +
                    std::to_string(at) + " is not among the " + std::to_string(alphabet_.size()) +
                    " characters of the text that this char tokenizer was made from; use only "
                    "those, or train with gpt2");
      }
      ids.push_back(id);
      at += c.size;
    }
    return ids;
  }

  Result<std::string> decode(std::span<const int32_t> ids) const override {
    std::string out;
    for (size_t i = 0; i < ids.size(); ++i) {
      if (ids[i] < 0 || ids[i] >= vocab_size()) {
        return Failure{Code::kInvalidArgument, "token id " + std::to_string(ids[i]) +
                                                   " at position " + std::to_string(i) +
                                                   " is outside the vocabulary of char (" +
                                                   std::to_string(vocab_size()) + " characters)"};
      }
      append_utf8(alphabet_[ids[i]], out);
    }
    return out;
  }

  Result<std::string> serialize() const override {
    std::string characters;
    for (const uint32_t c : alphabet_) append_utf8(c, characters);
    const nlohmann::ordered_json json = {{"kind", "char"}, {"alphabet", characters}};
    return json.dump() + "\n";
  }

  size_t cut_after(std::string_view text, size_t near) const override {
    while (near < text.size() && is_utf8_continuation(text[near])) ++near;
    return near;
  }

 private:
  int32_t id_of(uint32_t code_point) const {
    if (code_point < 128) return ascii_[code_point];
    const auto found = std::lower_bound(alphabet_.begin(), alphabet_.end(), code_point);
    if (found == alphabet_.end() || *found != code_point) return -1;
    return static_cast<int32_t>(found - alphabet_.begin());
  }

  std::vector<uint32_t> alphabet_;
  int32_t ascii_[128];
};

// Code points of valid UTF-8, in order.
std::vector<uint32_t> code_points(std::string_view text) {
  std::vector<uint32_t> out;
  for (size_t at = 0; at < text.size();) {
    const Utf8Char c = utf8_at(text, at);
    out.push_back(c.code_point);
    at += c.size;
  }
  return out;
}

}  // namespace

std::shared_ptr<const Tokenizer> char_tokenizer(std::string_view text) {
  validate_utf8(text).value_or_throw();
  std::vector<bool> seen(0x110000);
  for (size_t at = 0; at < text.size();) {
    const Utf8Char c = utf8_at(text, at);
    seen[c.code_point] = true;
    at += c.size;
  }
  std::vector<uint32_t> alphabet;
  for (uint32_t c = 0; c < seen.size(); ++c) {
    if (seen[c]) alphabet.push_back(c);
  }
  return std::make_shared<CharTokenizer>(std::move(alphabet));
}

Result<std::shared_ptr<const Tokenizer>> parse_char_tokenizer(std::string_view json,
                                                              std::string_view where) {
  const auto broken = [&](const std::string& what) {
    return Failure{Code::kDataLoss,
                   std::string(where) + ": " + what +
                       "; a char tokenizer is {\"kind\": \"char\", \"alphabet\": \"...\"}"};
  };
  const auto parsed = nlohmann::json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (!parsed.is_object()) return broken("not a JSON object");
  const auto kind = parsed.find("kind");
  const auto alphabet = parsed.find("alphabet");
  if (kind == parsed.end() || *kind != "char") return broken("\"kind\" is not \"char\"");
  if (alphabet == parsed.end() || !alphabet->is_string()) return broken("no string \"alphabet\"");
  std::vector<uint32_t> characters = code_points(alphabet->get_ref<const std::string&>());
  const auto disorder =
      std::adjacent_find(characters.begin(), characters.end(), std::greater_equal<uint32_t>());
  if (disorder != characters.end()) {
    return broken("character " + std::to_string(disorder - characters.begin() + 1) +
                  " of the alphabet is out of order");
  }
  return std::shared_ptr<const Tokenizer>(std::make_shared<CharTokenizer>(std::move(characters)));
}

}  // namespace espalier
