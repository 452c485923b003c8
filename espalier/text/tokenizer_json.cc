#include "espalier/text/tokenizer_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "espalier/text/byte_alphabet.h"

namespace espalier {
namespace {

using nlohmann::json;

constexpr std::string_view kGpt2Pattern =
    R"('(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
// As GPT-2's authors wrote it.
constexpr std::string_view kGpt2PatternLong =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::string_view kLlama3Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
    R"(\s*[\r\n]+|\s+(?!\S)|\s+)";

// Reads one file; the first failure ends it.
class Reader {
 public:
  Reader(const json& file, std::string where) : file_(file), where_(std::move(where)) {}

  Result<TokenizerJson> read() {
    ESPALIER_TRY(require_null(file_, "normalizer", "normalizer"));
    ESPALIER_TRY(read_pre_tokenizer());
    ESPALIER_TRY(read_decoder());
    ESPALIER_TRY(read_added());
    ESPALIER_TRY(read_model());
    return std::move(out_);
  }

 private:
  Failure broken(const std::string& what) const {
    return {Code::kDataLoss, fmt::format("{}: {}; it is no tokenizer.json of Hugging Face's "
                                         "tokenizers, or was cut or altered",
                                         where_, what)};
  }
  Failure unknown(const std::string& field, const std::string& value) const {
    constexpr size_t kShown = 200;
    const std::string shown = value.size() > kShown ? value.substr(0, kShown) + "..." : value;
    return {Code::kUnimplemented,
            fmt::format("{}: {} is {}; byte-level BPE files such as GPT-2's and Llama 3's are read",
                        where_, field, shown)};
  }
  static const json& at(const json& object, const char* key) {
    static const json null;
    const auto found = object.is_object() ? object.find(key) : object.end();
    return !object.is_object() || found == object.end() ? null : *found;
  }
  static std::string type_of(const json& part) {
    const json& type = at(part, "type");
    return type.is_string() ? type.get<std::string>() : part.dump();
  }
  // null, absent, "" and false say the same.
  Status require_null(const json& object, const char* key, const std::string& field) const {
    const json& value = at(object, key);
    const bool none = value.is_null() || value == "" || value == false || value == 0;
    if (none || (value.is_object() && at(value, "normalizers") == json::array())) return {};
    return unknown(field, value.is_object() ? "\"" + type_of(value) + "\"" : value.dump());
  }

  Status read_byte_level(const json& part, const std::string& field, bool splits) {
    if (type_of(part) != "ByteLevel") return unknown(field, "\"" + type_of(part) + "\"");
    const bool by_regex = part.value("use_regex", true);
    if (by_regex != splits) {
      return unknown(field + ".use_regex", by_regex ? "true behind a Split" : "false");
    }
    out_.add_prefix_space = part.value("add_prefix_space", true);
    if (out_.add_prefix_space && !splits) {
      return unknown(field + ".add_prefix_space", "true behind a Split");
    }
    return {};
  }

  Status read_split(const json& part, const std::string& field) {
    if (type_of(part) != "Split") return unknown(field, "\"" + type_of(part) + "\"");
    if (at(part, "behavior") != "Isolated" || part.value("invert", false)) {
      return unknown(field + ".behavior", at(part, "behavior").dump() + " or inverted");
    }
    const json& pattern = at(at(part, "pattern"), "Regex");
    const std::string text = pattern.is_string() ? pattern.get<std::string>() : "";
    if (text == kGpt2Pattern || text == kGpt2PatternLong) {
      out_.pattern = PiecePattern::kGpt2;
    } else if (text == kLlama3Pattern) {
      out_.pattern = PiecePattern::kLlama3;
    } else {
      return unknown(field + ".pattern", at(part, "pattern").dump() +
                                             ", neither GPT-2's nor Llama 3's regular expression");
    }
    return {};
  }

  Status read_pre_tokenizer() {
    const std::string field = "pre_tokenizer";
    const json& part = at(file_, "pre_tokenizer");
    if (type_of(part) != "Sequence") return read_byte_level(part, field, true);
    const json& parts = at(part, "pretokenizers");
    if (!parts.is_array() || parts.empty() || parts.size() > 2) {
      return unknown(field + ".pretokenizers", parts.dump());
    }
    if (parts.size() == 1) return read_byte_level(parts[0], field + ".pretokenizers[0]", true);
    ESPALIER_TRY(read_split(parts[0], field + ".pretokenizers[0]"));
    return read_byte_level(parts[1], field + ".pretokenizers[1]", false);
  }

  Status read_decoder() const {
    const json& decoder = at(file_, "decoder");
    if (decoder.is_null() || type_of(decoder) == "ByteLevel") return {};
    return unknown("decoder", "\"" + type_of(decoder) + "\"");
  }

  Status read_added() {
    const json& list = at(file_, "added_tokens");
    if (list.is_null()) return {};
    if (!list.is_array()) return broken("added_tokens is no list");
    for (const json& entry : list) {
      const json &content = at(entry, "content"), &id = at(entry, "id");
      if (!content.is_string() || content == "" || !id.is_number_unsigned()) {
        return broken("an entry of added_tokens has no content or no id");
      }
      for (const char* flag : {"single_word", "lstrip", "rstrip"}) {
        if (entry.value(flag, false)) {
          return unknown(fmt::format("added_tokens: \"{}\" of {}", flag, content.dump()), "true");
        }
      }
      out_.added.push_back(
          {content.get<std::string>(), id.get<int32_t>(), entry.value("normalized", false)});
    }
    return {};
  }

  Status read_model() {
    const json& model = at(file_, "model");
    if (const json& type = at(model, "type"); !type.is_null() && type != "BPE") {
      return unknown("model.type", type.dump());
    }
    for (const char* key :
         {"dropout", "continuing_subword_prefix", "end_of_word_suffix", "byte_fallback"}) {
      ESPALIER_TRY(require_null(model, key, std::string("model.") + key));
    }
    out_.ignore_merges = model.value("ignore_merges", false);
    const json &vocab = at(model, "vocab"), &merges = at(model, "merges");
    if (!vocab.is_object()) return broken("model.vocab is no object");
    if (!merges.is_array()) return broken("model.merges is no list");
    ESPALIER_TRY(read_vocabulary(vocab));
    for (size_t i = 0; i < merges.size(); ++i) ESPALIER_TRY(read_merge(merges[i], i));
    return {};
  }

  Status read_vocabulary(const json& vocab) {
    std::vector<std::pair<int32_t, std::string>> by_id;
    for (const auto& [text, id] : vocab.items()) {
      if (!id.is_number_unsigned() || id > 1 << 24) {
        return broken("model.vocab: the id of '" + text + "' is " + id.dump());
      }
      by_id.emplace_back(id.get<int32_t>(), text);
    }
    std::sort(by_id.begin(), by_id.end());
    std::vector<std::string> names;
    for (const AddedToken& token : out_.added) names.push_back(token.content);
    std::sort(names.begin(), names.end());
    for (size_t i = 0; i < by_id.size(); ++i) {
      const auto& [id, text] = by_id[i];
      if (i > 0 && id == by_id[i - 1].first) {
        return broken(fmt::format("model.vocab: '{}' and '{}' have one id, {}", by_id[i - 1].second,
                                  text, id));
      }
      if (std::binary_search(names.begin(), names.end(), text)) continue;
      auto bytes = bytes_spelled(text);
      if (!bytes) {
        return unknown("model.vocab: token \"" + text + "\"",
                       "not spelled in the alphabet of byte-level vocabularies");
      }
      index_.emplace(text, static_cast<int32_t>(out_.tokens.size()));
      out_.tokens.push_back(std::move(*bytes));
      out_.ids.push_back(id);
    }
    return {};
  }

  // "left right", or ["left", "right"].
  Status read_merge(const json& merge, size_t number) {
    std::string left, right;
    if (merge.is_string()) {
      const auto& text = merge.get_ref<const std::string&>();
      const size_t blank = text.find(' ');
      left = text.substr(0, blank);
      if (blank != std::string::npos) right = text.substr(blank + 1);
    } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() &&
               merge[1].is_string()) {
      left = merge[0].get<std::string>();
      right = merge[1].get<std::string>();
    } else {
      return broken(fmt::format("model.merges[{}] is {}", number, merge.dump()));
    }
    Merges::Pair pair;
    for (const auto& [text, to] : {std::pair{left, &pair.left}, std::pair{right, &pair.right},
                                   std::pair{left + right, &pair.merged}}) {
      const auto found = index_.find(text);
      if (found == index_.end()) {
        return broken(fmt::format("model.merges[{}]: '{}' is not in model.vocab", number, text));
      }
      *to = found->second;
    }
    out_.merges.push_back(pair);
    return {};
  }

  const json& file_;
  std::string where_;
  std::unordered_map<std::string, int32_t> index_;  // tokens as they are spelled
  TokenizerJson out_;
};

}  // namespace

Result<TokenizerJson> read_tokenizer_json(const json& file, const std::string& where) {
  try {
    return Reader(file, where).read();
  } catch (const json::exception& error) {
    return Failure{Code::kDataLoss, where + " is no tokenizer.json: " + error.what()};
  }
}

}  // namespace espalier
