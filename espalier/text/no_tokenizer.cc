#include "espalier/text/no_tokenizer.h"

#include <limits>
#include <nlohmann/json.hpp>

namespace espalier {
namespace {

class NoTokenizer final : public Tokenizer {
 public:
  explicit NoTokenizer(int32_t vocab_size) : vocab_size_(vocab_size) {}

  std::string_view name() const override { return "none"; }
  int32_t vocab_size() const override { return vocab_size_; }
  std::optional<int32_t> special(std::string_view) const override { return std::nullopt; }
  std::optional<int32_t> end_of_text() const override { return std::nullopt; }

  std::vector<int32_t> encode(std::string_view, bool) const override {
    throw Error(
        "there is no tokenizer: the model was trained on random tokens (data.source = "
        "\"synthetic\"), which stand for no text");
  }
  Result<std::string> decode(std::span<const int32_t> ids) const override {
    std::string out;
    for (const int32_t id : ids) out += (out.empty() ? "" : " ") + std::to_string(id);
    return out;
  }
  Result<std::string> serialize() const override {
    const nlohmann::ordered_json json = {{"kind", "none"}, {"vocab_size", vocab_size_}};
    return json.dump() + "\n";
  }
  size_t cut_after(std::string_view text, size_t) const override { return text.size(); }

 private:
  int32_t vocab_size_;
};

}  // namespace

std::shared_ptr<const Tokenizer> no_tokenizer(int32_t vocab_size) {
  return std::make_shared<NoTokenizer>(vocab_size);
}

Result<std::shared_ptr<const Tokenizer>> parse_no_tokenizer(std::string_view json,
                                                            std::string_view where) {
  const auto parsed = nlohmann::json::parse(json, nullptr, /*allow_exceptions=*/false);
  const auto size = parsed.is_object() ? parsed.find("vocab_size") : parsed.end();
  const bool good = parsed.is_object() && parsed.value("kind", nlohmann::json()) == "none" &&
                    size != parsed.end() && size->is_number_integer() && size->get<int64_t>() > 0 &&
                    size->get<int64_t>() <= std::numeric_limits<int32_t>::max();
  if (good) return no_tokenizer(size->get<int32_t>());
  return Failure{Code::kDataLoss,
                 std::string(where) +
                     ": a stored tokenizer of kind \"none\" is {\"kind\": \"none\", "
                     "\"vocab_size\": N}"};
}

}  // namespace espalier
