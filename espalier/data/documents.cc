#include "espalier/data/documents.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "espalier/base/file.h"
#include "espalier/data/source_text.h"
#include "espalier/text/utf8.h"

namespace espalier {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kBlank = " \t\r\n\f\v";

bool is_blank(char c) { return kBlank.find(c) != std::string_view::npos; }

// Python's str.isspace().
bool is_python_space(uint32_t c) {
  return (c >= 0x09 && c <= 0x0d) || (c >= 0x1c && c <= 0x20) || c == 0x85 || c == 0xa0 ||
         c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f ||
         c == 0x205f || c == 0x3000;
}

size_t cut_between_characters(std::string_view text, size_t near) {
  while (near < text.size() && is_utf8_continuation(text[near])) ++near;
  return near;
}

Failure bad_line(const std::string& name, uint64_t line, const std::string& what) {
  return {Code::kInvalidArgument, fmt::format("'{}', line {}: {}", name, line, what)};
}

// The text of a JSON line.
Result<std::string> text_of(std::string_view line, const std::string& key, const std::string& name,
                            uint64_t number) {
  nlohmann::json object;
  try {
    object = nlohmann::json::parse(line);
  } catch (const nlohmann::json::parse_error& error) {
    return bad_line(name, number,
                    fmt::format("not JSON at column {}; correct the line, or remove it",
                                std::max<size_t>(error.byte, 1)));
  } catch (const nlohmann::json::exception&) {
    return bad_line(name, number,
                    "a number that is too large to be read; correct the line, or remove it");
  }
  if (!object.is_object()) {
    return bad_line(
        name, number,
        fmt::format("a JSON object with the key \"{}\" is due, not {}", key, object.type_name()));
  }
  const auto found = object.find(key);
  if (found == object.end()) {
    std::string keys;
    for (const auto& [other, value] : object.items()) {
      keys += (keys.empty() ? " \"" : ", \"") + other + "\"";
    }
    return bad_line(name, number,
                    fmt::format("no key \"{}\"; it has{}: give the text's by --text-key", key,
                                keys.empty() ? std::string(" none") : keys));
  }
  if (!found->is_string()) {
    return bad_line(name, number, fmt::format("\"{}\" is {}, not a text", key, found->type_name()));
  }
  return found->get<std::string>();
}

}  // namespace

std::string clean_web_text(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    if (text[at] != '\n') {
      out += text[at++];
      continue;
    }
    size_t end = at;
    while (end < text.size() && text[end] == '\n') ++end;
    out.append(std::min<size_t>(end - at, 2), '\n');
    at = end;
  }
  size_t begin = 0, end = 0;  // of what is not white space
  bool any = false;
  for (size_t at = 0; at < out.size();) {
    const Utf8Char c = utf8_at(out, at);
    if (!is_python_space(c.code_point)) {
      if (!any) begin = at;
      any = true;
      end = at + c.size;
    }
    at += c.size;
  }
  return out.substr(begin, end - begin);
}

DocumentStream::DocumentStream(std::vector<fs::path> files, DocumentOptions options)
    : files_(std::move(files)), options_(std::move(options)) {
  if (!options_.cut_after) options_.cut_after = &cut_between_characters;
  for (const fs::path& file : files_) {
    std::error_code error;
    const auto size = fs::file_size(file, error);
    if (!error) size_ += size;
  }
}

DocumentStream::~DocumentStream() = default;

uint64_t DocumentStream::bytes_read() const {
  return closed_bytes_ + (file_ ? file_->bytes_read() : 0);
}

Result<bool> DocumentStream::next(Piece& piece) {
  while (true) {
    if (!in_text_) {
      ESPALIER_ASSIGN(in_text_, open_next_text());
      if (!in_text_) return false;
    }
    ESPALIER_ASSIGN(const bool given, options_.web_text ? next_web_text(piece)
                                      : lines_          ? next_line(piece)
                                                        : next_stretch(piece));
    if (given) return true;
    in_text_ = false;
  }
}

Result<bool> DocumentStream::open_next_text() {
  while (true) {
    if (!file_) {
      if (next_file_ == files_.size()) return false;
      ESPALIER_ASSIGN(TextFile file, TextFile::open(files_[next_file_++]));
      file_.emplace(std::move(file));
    }
    ESPALIER_ASSIGN(const bool there, file_->next());
    if (!there) {
      closed_bytes_ += file_->bytes_read();
      file_.reset();
      continue;
    }
    const std::string extension = fs::path(file_->file_name()).extension().string();
    if (options_.web_text && extension != ".txt") continue;
    carry_.clear();
    begin_ = valid_ = searched_ = 0;
    carry_at_ = line_ = 0;
    wanted_ = options_.piece_bytes;
    separated_ = text_ended_ = document_begun_ = false;
    lines_ = extension == ".jsonl" || extension == ".ndjson";
    if (!lines_ && extension != ".txt") ESPALIER_TRY(is_json_lines(lines_));
    return true;
  }
}

// Reads another block and checks that it is UTF-8, but for a character that goes on in the next.
Status DocumentStream::read_more() {
  if (begin_ > carry_.size() / 2) {
    carry_.erase(0, begin_);
    carry_at_ += begin_;
    valid_ -= begin_;
    searched_ -= std::min(searched_, begin_);
    begin_ = 0;
  }
  ESPALIER_ASSIGN(const std::string_view block, file_->read());
  text_ended_ = block.empty();
  carry_ += block;
  const std::string_view fresh = std::string_view(carry_).substr(valid_);
  const auto bad = first_invalid_utf8(fresh);
  if (!bad) {
    valid_ = carry_.size();
    return {};
  }
  if (!text_ended_ && fresh.size() - *bad < 4) {
    valid_ += *bad;
    return {};
  }
  std::string bytes;
  for (size_t i = *bad; i < std::min(*bad + 4, fresh.size()); ++i) {
    bytes += fmt::format(" {:02x}", static_cast<unsigned char>(fresh[i]));
  }
  return Failure{Code::kInvalidArgument,
                 fmt::format("'{}' is not valid UTF-8 at byte {}: bytes{}; convert the text to "
                             "UTF-8, for example with iconv",
                             file_->name(), carry_at_ + valid_ + *bad, bytes)};
}

Status DocumentStream::is_json_lines(bool& yes) {
  yes = false;
  size_t line_end = std::string_view::npos, first = std::string_view::npos;
  while (!text_ended_ && valid_ < options_.piece_bytes) {
    ESPALIER_TRY(read_more());
    const std::string_view text = unread();
    first = text.find_first_not_of(kBlank);
    if (first == std::string_view::npos) continue;
    if (text[first] != '{') return {};
    line_end = text.find('\n', first);
    if (line_end != std::string_view::npos) break;
  }
  if (first == std::string_view::npos) return {};
  const auto object = nlohmann::json::parse(unread().substr(first, line_end - first), nullptr,
                                            /*allow_exceptions=*/false);
  yes = object.is_object() && object.contains(options_.text_key);
  return {};
}

void DocumentStream::take(size_t begin, size_t end, size_t after, bool ends, Piece& piece) {
  piece.text.assign(carry_, begin, end - begin);
  piece.ends = ends;
  piece.where = file_->name();
  piece.position = carry_at_ + begin;
  piece.is_line = false;
  document_begun_ = !ends;
  begin_ = after;
  searched_ = std::max(searched_, begin_);
  wanted_ = options_.piece_bytes;
}

Result<bool> DocumentStream::next_line(Piece& piece) {
  while (true) {
    const size_t found = std::string_view(carry_).substr(0, valid_).find('\n', searched_);
    if (found == std::string_view::npos && !text_ended_) {
      searched_ = valid_;
      ESPALIER_TRY(read_more());
      continue;
    }
    if (begin_ == valid_) return false;
    const size_t end = std::min(found, valid_);
    const std::string_view line = std::string_view(carry_).substr(begin_, end - begin_);
    begin_ = std::min(end + 1, valid_);
    searched_ = begin_;
    ++line_;
    if (line.find_first_not_of(kBlank) == std::string_view::npos) continue;
    ESPALIER_ASSIGN(piece.text, text_of(line, options_.text_key, file_->name(), line_));
    piece.ends = true;
    piece.where = file_->name();
    piece.position = line_;
    piece.is_line = true;
    return true;
  }
}

Result<bool> DocumentStream::next_web_text(Piece& piece) {
  if (text_ended_) return false;
  while (!text_ended_) ESPALIER_TRY(read_more());
  piece = {clean_web_text(unread()), true, file_->name(), 0, false};
  return true;
}

Result<bool> DocumentStream::next_stretch(Piece& piece) {
  constexpr size_t kSeparator = kStorySeparator.size();
  while (true) {
    const std::string_view text = std::string_view(carry_).substr(0, valid_);
    const size_t found = text.find(kStorySeparator, searched_);
    const bool at_separator = found != std::string_view::npos;
    if (at_separator) separated_ = true;
    if (at_separator || text_ended_) {
      size_t first = begin_, last = std::min(found, valid_);
      const size_t after = at_separator ? found + kSeparator : valid_;
      const bool all_given = !at_separator && begin_ == valid_ && !document_begun_;
      if (separated_) {
        while (last > first && is_blank(text[last - 1])) --last;
        // The end of a begun document may be blank; a document may not.
        if (all_given || (first == last && !document_begun_)) {
          begin_ = after;
          searched_ = std::max(searched_, begin_);
          if (!at_separator) return false;
          continue;
        }
        if (!options_.trim) last = std::min(found, valid_);
        if (options_.trim && !document_begun_) {
          while (is_blank(text[first])) ++first;
        }
      } else if (all_given) {
        return false;
      }
      take(first, last, after, true, piece);
      return true;
    }
    searched_ = std::max(begin_, valid_ - std::min(valid_, kSeparator - 1));
    if (searched_ - begin_ >= wanted_) {
      // What follows `searched_` may be the beginning of a separator.
      const std::string_view whole = text.substr(begin_, searched_ - begin_);
      const size_t half = whole.size() / 2;
      size_t cut = options_.cut_after(whole, half);
      // White space stays with what follows, which may be the document's end.
      while (cut < whole.size() && is_blank(whole[cut - 1])) {
        cut = options_.cut_after(whole, cut + 1);
      }
      size_t first = 0;
      if (separated_ && options_.trim && !document_begun_) {
        while (first < cut && is_blank(whole[first])) ++first;
      }
      if (cut < whole.size() && first < cut) {
        const size_t from = begin_;
        take(from + first, from + cut, from + cut, false, piece);
        return true;
      }
      wanted_ = 2 * whole.size();
    }
    ESPALIER_TRY(read_more());
  }
}

}  // namespace espalier
