#include "espalier/text/pieces.h"

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <vector>

#include "espalier/text/unicode_tables.h"
#include "espalier/text/utf8.h"

namespace espalier {
namespace {

// kNewline is \r or \n, which Llama 3's pattern treats apart from other white space.
enum class Class : uint8_t { kOther, kLetter, kNumber, kSpace, kNewline };

bool is_space(Class c) { return c == Class::kSpace || c == Class::kNewline; }

// Classes of all code points up to the last one that is not kOther.
class ClassTable {
 public:
  ClassTable() {
    fill(unicode_letters(), Class::kLetter);
    fill(unicode_numbers(), Class::kNumber);
    fill(unicode_white_space(), Class::kSpace);
    classes_['\r'] = classes_['\n'] = Class::kNewline;
  }
  Class operator[](uint32_t code_point) const {
    return code_point < classes_.size() ? classes_[code_point] : Class::kOther;
  }

 private:
  void fill(std::span<const CodePointRange> ranges, Class value) {
    for (const CodePointRange& range : ranges) {
      if (classes_.size() <= range.last) classes_.resize(range.last + 1, Class::kOther);
      for (uint32_t c = range.first; c <= range.last; ++c) classes_[c] = value;
    }
  }
  std::vector<Class> classes_;
};

const ClassTable& class_table() {
  static const ClassTable table;
  return table;
}

constexpr std::array<Class, 128> kAscii = [] {
  std::array<Class, 128> out{};
  for (int c = 'a'; c <= 'z'; ++c) out[c] = out[c - 'a' + 'A'] = Class::kLetter;
  for (int c = '0'; c <= '9'; ++c) out[c] = Class::kNumber;
  for (int c : {'\t', '\v', '\f', ' '}) out[c] = Class::kSpace;
  out['\r'] = out['\n'] = Class::kNewline;
  return out;
}();

struct Char {
  Class cls;
  uint32_t size;
};

Char char_at(std::string_view text, size_t at) {
  const auto byte = static_cast<uint8_t>(text[at]);
  if (byte < 0x80) return {kAscii[byte], 1};
  const Utf8Char c = utf8_at(text, at);
  return {class_table()[c.code_point], c.size};
}

// How many of the 8 bytes at `from` are ASCII letters up to the first that is not: by bits of one
// word, since a branch for each byte is mispredicted at nearly every word's end.
size_t ascii_letters(const char* from) {
  constexpr uint64_t kOnes = 0x0101010101010101u;
  uint64_t word;
  std::memcpy(&word, from, 8);
  const uint64_t lower = (word | 0x20 * kOnes) & 0x7f * kOnes;
  // The high bit of each byte: at least 'a', more than 'z'. No sum carries into the next byte.
  const uint64_t from_a = lower + (0x80 - 'a') * kOnes;
  const uint64_t past_z = lower + (0x80 - 'z' - 1) * kOnes;
  const uint64_t other = ~(from_a & ~past_z & ~word) & 0x80 * kOnes;
  static_assert(std::endian::native == std::endian::little);
  return static_cast<size_t>(std::countr_zero(other)) / 8;
}

// End of the run of characters of one class that begins at text[at].
size_t run_end(std::string_view text, size_t at, Class cls) {
  if (cls == Class::kLetter) {
    while (at + 8 <= text.size()) {
      const size_t letters = ascii_letters(text.data() + at);
      at += letters;
      if (letters < 8) break;
    }
  }
  while (at < text.size()) {
    const Char c = char_at(text, at);
    if (c.cls != cls) break;
    at += c.size;
  }
  return at;
}

// A run of white space that begins at text[at].
struct Spaces {
  size_t end;           // one past the run
  size_t last;          // where its last character begins
  size_t newlines_end;  // one past its last \r or \n; 0 where it has none
};

Spaces spaces_at(std::string_view text, size_t at) {
  Spaces run{at, at, 0};
  while (run.end < text.size()) {
    const Char c = char_at(text, run.end);
    if (!is_space(c.cls)) break;
    run.last = run.end;
    run.end += c.size;
    if (c.cls == Class::kNewline) run.newlines_end = run.end;
  }
  return run;
}

// \s+(?!\S)|\s+ : a run before a visible character leaves its last space to that character's piece.
size_t spaces_end(std::string_view text, size_t at, const Spaces& run) {
  return run.end == text.size() || run.last == at ? run.end : run.last;
}

// Bytes of s, d, m, t, ll, ve or re at text[at] (after an apostrophe), else 0.
template <PiecePattern kPattern>
size_t contraction(std::string_view text, size_t at) {
  const auto letter = [&](size_t i) -> char {
    if (i >= text.size()) return 0;
    const char c = text[i];
    return kPattern == PiecePattern::kLlama3 && c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c;
  };
  const char first = letter(at), second = letter(at + 1);
  switch (first) {
    case 's':
    case 'd':
    case 'm':
    case 't':
      return 1;
    case 'l':
      return second == 'l' ? 2 : 0;
    case 'v':
    case 'r':
      return second == 'e' ? 2 : 0;
    default:
      return kPattern == PiecePattern::kLlama3 && text.substr(at, 2) == "\u017f" ? 2 : 0;
  }
}

}  // namespace

template <>
size_t piece_end<PiecePattern::kGpt2>(std::string_view text, size_t at) {
  if (text[at] == '\'') {
    if (const size_t n = contraction<PiecePattern::kGpt2>(text, at + 1)) return at + 1 + n;
  }
  if (text[at] == ' ' && at + 1 < text.size()) {
    const Char next = char_at(text, at + 1);
    if (!is_space(next.cls)) return run_end(text, at + 1 + next.size, next.cls);
  }
  const Char first = char_at(text, at);
  if (!is_space(first.cls)) return run_end(text, at + first.size, first.cls);
  return spaces_end(text, at, spaces_at(text, at));
}

template <>
size_t piece_end<PiecePattern::kLlama3>(std::string_view text, size_t at) {
  if (text[at] == '\'') {
    if (const size_t n = contraction<PiecePattern::kLlama3>(text, at + 1)) return at + 1 + n;
  }
  const Char first = char_at(text, at);
  size_t end = at + first.size;
  if (first.cls == Class::kLetter) return run_end(text, end, Class::kLetter);
  if (first.cls == Class::kNumber) {
    for (int digits = 1; digits < 3 && end < text.size(); ++digits) {
      const Char c = char_at(text, end);
      if (c.cls != Class::kNumber) break;
      end += c.size;
    }
    return end;
  }
  Class next = end < text.size() ? char_at(text, end).cls : Class::kNewline;
  if (first.cls != Class::kNewline && next == Class::kLetter) {
    return run_end(text, end, Class::kLetter);
  }
  if (first.cls == Class::kOther || (text[at] == ' ' && next == Class::kOther)) {
    return run_end(text, run_end(text, end, Class::kOther), Class::kNewline);
  }
  const Spaces run = spaces_at(text, at);
  return run.newlines_end != 0 ? run.newlines_end : spaces_end(text, at, run);
}

// Proof that a cut before ' ' and after a visible character c is safe. No alternative of either
// pattern matches a visible character followed by a blank (Llama 3's [\r\n]* takes line ends only),
// so a piece ends at the cut; matching goes left to right without looking back, so what follows the
// cut is unchanged; and the only look-ahead, (?!\S), is tried on pieces of white space, which c's
// is not, so what precedes the cut is unchanged.
size_t piece_cut_after(std::string_view text, size_t near) {
  for (size_t at = text.find(' ', near); at != std::string_view::npos;
       at = text.find(' ', at + 1)) {
    if (at == 0) continue;
    size_t previous = at - 1;
    while (previous > 0 && is_utf8_continuation(text[previous])) --previous;
    if (!is_space(char_at(text, previous).cls)) return at;
  }
  return text.size();
}

}  // namespace espalier
