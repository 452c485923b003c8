#include "espalier/data/source_text.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>

#include "espalier/base/file.h"
#include "espalier/base/sha256.h"

namespace espalier {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kBlank = " \t\r\n\f\v";

// Length of the well-formed character at the start of `rest`, or 0.
size_t character_length(std::string_view rest) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(rest[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return 1;
  const size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || rest.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  // The second byte excludes overlong forms, surrogates and what lies above U+10FFFF.
  if (lead == 0xe0 && byte(1) < 0xa0) return 0;
  if (lead == 0xed && byte(1) > 0x9f) return 0;
  if (lead == 0xf0 && byte(1) < 0x90) return 0;
  if (lead == 0xf4 && byte(1) > 0x8f) return 0;
  return length;
}

}  // namespace

Result<SourceText> SourceText::open(const fs::path& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return errno_failure("open the text", path);
  ESPALIER_ASSIGN(MappedFile file, MappedFile::open(path));
  if (file.bytes().empty()) {
    return Failure{Code::kInvalidArgument, "the text '" + path.string() +
                                               "' is empty: there is nothing to train on; give a "
                                               "file with text in it"};
  }
  SourceText out;
  out.name_ = path.string();
  std::error_code error;
  const fs::path absolute = fs::weakly_canonical(path, error);
  out.key_ = error ? path.string() : absolute.string();
  out.is_file_ = true;
  out.modified_ns_ = int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec;
  out.text_ = {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
  out.owner_ = std::make_shared<MappedFile>(std::move(file));
  return out;
}

SourceText SourceText::embedded(std::string key, std::string text) {
  SourceText out;
  const auto owned = std::make_shared<const std::string>(std::move(text));
  out.name_ = key;
  out.key_ = std::move(key);
  out.text_ = *owned;
  out.owner_ = owned;
  return out;
}

std::string SourceText::stem() const { return is_file_ ? fs::path(name_).stem().string() : name_; }

std::string SourceText::sha256() const { return sha256_hex(text_); }

std::optional<size_t> first_invalid_utf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const size_t length = character_length(text.substr(at));
    if (length == 0) return at;
    at += length;
  }
  return std::nullopt;
}

Status check_utf8(const SourceText& source) {
  const std::string_view text = source.text();
  const auto bad = first_invalid_utf8(text);
  if (!bad) return {};
  const auto line = 1 + std::count(text.begin(), text.begin() + static_cast<ptrdiff_t>(*bad), '\n');
  std::string bytes;
  for (size_t i = *bad; i < std::min(*bad + 4, text.size()); ++i) {
    bytes += fmt::format(" {:02x}", static_cast<unsigned char>(text[i]));
  }
  const bool cut = text.size() - *bad < 4;
  return Failure{Code::kInvalidArgument,
                 fmt::format("'{}' is not valid UTF-8 at byte {} (line {}): bytes{}{}; convert the "
                             "text to UTF-8, for example with iconv",
                             source.name(), *bad, line, bytes,
                             cut ? " at the end of the file, which may be cut short" : "")};
}

bool has_stories(std::string_view text) {
  return text.find(kStorySeparator) != std::string_view::npos;
}

std::vector<std::string_view> split_stories(std::string_view text, bool trim) {
  std::vector<std::string_view> out;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(kStorySeparator, begin), text.size());
    std::string_view story = text.substr(begin, end - begin);
    begin = end + kStorySeparator.size();
    const size_t first = story.find_first_not_of(kBlank);
    if (first == std::string_view::npos) continue;
    if (trim) story = story.substr(first, story.find_last_not_of(kBlank) - first + 1);
    out.push_back(story);
  }
  return out;
}

}  // namespace espalier
