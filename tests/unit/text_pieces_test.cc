// The hand-written scanners against the regular expressions, run by PCRE2.
#define PCRE2_CODE_UNIT_WIDTH 8
#include <gtest/gtest.h>
#include <pcre2.h>

#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "espalier/text/pieces.h"
#include "espalier/text/utf8.h"

namespace espalier {
namespace {

// PCRE2's \s takes U+180E too, which is not White_Space: spell the set out.
const std::string kBlank =
    "\\x09-\\x0d\\x20\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}"
    "\\x{3000}";

std::string pattern_text(PiecePattern pattern) {
  const std::string space = "[" + kBlank + "]", visible = "[^" + kBlank + "]";
  const std::string rest = space + "+(?!" + visible + ")|" + space + "+";
  if (pattern == PiecePattern::kGpt2) {
    return "'(?:[sdmt]|ll|ve|re)| ?\\p{L}+| ?\\p{N}+| ?[^" + kBlank + "\\p{L}\\p{N}]+|" + rest;
  }
  return "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^" + kBlank +
         "\\p{L}\\p{N}]+[\\r\\n]*|" + space + "*[\\r\\n]+|" + rest;
}

class Regex {
 public:
  explicit Regex(const std::string& pattern) {
    int error = 0;
    PCRE2_SIZE offset = 0;
    code_ = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                          PCRE2_UTF | PCRE2_UCP, &error, &offset, nullptr);
    if (code_ == nullptr) throw std::runtime_error("pattern: offset " + std::to_string(offset));
    match_ = pcre2_match_data_create_from_pattern(code_, nullptr);
  }
  ~Regex() {
    pcre2_match_data_free(match_);
    pcre2_code_free(code_);
  }
  Regex(const Regex&) = delete;
  Regex& operator=(const Regex&) = delete;

  // End of the match that begins at text[at]; npos where none does.
  size_t match(std::string_view text, size_t at) const {
    const int count = pcre2_match(code_, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), at,
                                  PCRE2_ANCHORED, match_, nullptr);
    return count < 1 ? std::string_view::npos : pcre2_get_ovector_pointer(match_)[1];
  }

 private:
  pcre2_code* code_;
  pcre2_match_data* match_;
};

template <PiecePattern kPattern>
std::vector<std::string> pieces(std::string_view text) {
  std::vector<std::string> out;
  for (size_t at = 0; at < text.size();) {
    const size_t end = piece_end<kPattern>(text, at);
    out.emplace_back(text.substr(at, end - at));
    at = end;
  }
  return out;
}

std::vector<std::string> pieces(const Regex& regex, std::string_view text) {
  std::vector<std::string> out;
  for (size_t at = 0; at < text.size();) {
    const size_t end = regex.match(text, at);
    if (end == std::string_view::npos) throw std::runtime_error("the pattern left a gap");
    out.emplace_back(text.substr(at, end - at));
    at = end;
  }
  return out;
}

// Texts of fragments that meet in every way, with characters of all planes among them. Characters
// that PCRE2's older Unicode does not know are left out.
std::vector<std::string> awkward_texts() {
  const std::vector<std::string> fragments = {
      "'s",     "'S",     "'ll",  "'Ll",  "'re",    "'ve",    "'d",     "'",     "'\u017f",
      " ",      "  ",     "\n",   "\r\n", "\t",     "\u00a0", "\u3000", "1",     "12",
      "1234",   "a",      "the",  "Zoo",  "é",      "中",     "文字",   "😀",     "...",
      "!?",     "\u0301", "٣",    "Ⅷ",    "\v",     "_",      "\f",     "-",     "\u180e",
      "\u2028", "\u0085", "\x1c", "x\ny", ".\n\n ", "<|",     "|>",     "\u200b"};
  const Regex unassigned("\\p{Cn}");
  std::mt19937 random(3);
  std::vector<std::string> texts;
  for (int i = 0; i < 20000; ++i) {
    std::string text;
    for (int n = 1 + static_cast<int>(random() % 12); n > 0; --n) {
      if (random() % 4 != 0) {
        text += fragments[random() % fragments.size()];
        continue;
      }
      const uint32_t code_point = random() % (random() % 2 == 0 ? 0x3400 : 0x110000);
      std::string character;
      append_utf8(code_point, character);
      const bool surrogate = code_point >= 0xd800 && code_point < 0xe000;
      if (!surrogate && unassigned.match(character, 0) == std::string::npos) text += character;
    }
    texts.push_back(text);
  }
  return texts;
}

template <PiecePattern kPattern>
void expect_equal_to_regex() {
  const Regex regex(pattern_text(kPattern));
  for (const std::string& text : awkward_texts()) {
    ASSERT_EQ(pieces<kPattern>(text), pieces(regex, text)) << testing::PrintToString(text);
  }
}

TEST(Pieces, Gpt2EqualsTheRegularExpression) { expect_equal_to_regex<PiecePattern::kGpt2>(); }

TEST(Pieces, Llama3EqualsTheRegularExpression) { expect_equal_to_regex<PiecePattern::kLlama3>(); }

TEST(Pieces, Gpt2ByHand) {
  using V = std::vector<std::string>;
  EXPECT_EQ(pieces<PiecePattern::kGpt2>("I'll  go 12345!\n\nx "),
            (V{"I", "'ll", " ", " go", " 12345", "!", "\n", "\n", "x", " "}));
  EXPECT_EQ(pieces<PiecePattern::kLlama3>("I'LL  go 12345!\n\n x \n y"),
            (V{"I", "'LL", " ", " go", " ", "123", "45", "!\n\n", " x", " \n", " y"}));
}

// Unicode 16, beyond PCRE2's tables: a digit of Garay is a number, a letter of CJK extension I one.
TEST(Pieces, KnowsUnicode16) {
  EXPECT_EQ(pieces<PiecePattern::kGpt2>("a\U00010d40"),
            (std::vector<std::string>{"a", "\U00010d40"}));
  EXPECT_EQ(pieces<PiecePattern::kGpt2>("a\U0002ebf0"), (std::vector<std::string>{"a\U0002ebf0"}));
}

TEST(Pieces, CutsChangeNothing) {
  size_t inner_cuts = 0;
  for (const std::string& text : awkward_texts()) {
    const auto gpt2 = pieces<PiecePattern::kGpt2>(text);
    const auto llama3 = pieces<PiecePattern::kLlama3>(text);
    for (size_t near = 1; near <= text.size(); ++near) {
      const size_t cut = piece_cut_after(text, near);
      ASSERT_GE(cut, near);
      if (cut == text.size()) continue;
      ++inner_cuts;
      const std::string_view left(text.data(), cut), right(text.data() + cut, text.size() - cut);
      auto halves = pieces<PiecePattern::kGpt2>(left);
      for (auto& piece : pieces<PiecePattern::kGpt2>(right)) halves.push_back(piece);
      ASSERT_EQ(halves, gpt2) << testing::PrintToString(text) << " cut at " << cut;
      halves = pieces<PiecePattern::kLlama3>(left);
      for (auto& piece : pieces<PiecePattern::kLlama3>(right)) halves.push_back(piece);
      ASSERT_EQ(halves, llama3) << testing::PrintToString(text) << " cut at " << cut;
      near = cut;
    }
  }
  EXPECT_GT(inner_cuts, 1000u);
}

}  // namespace
}  // namespace espalier
