// SourceText: the text that a dataset is made from, a file or a string of our own; and how it falls
// into stories.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/base/error.h"

namespace espalier {

// Written between stories, as in the TinyStories files.
inline constexpr std::string_view kStorySeparator = "<|endoftext|>";

// Copies share the text, which lives as long as any of them. Immutable.
class SourceText {
 public:
  // Maps a file. Missing: kNotFound; empty: kInvalidArgument.
  static Result<SourceText> open(const std::filesystem::path& path);
  // `key` tells this text from others in a cache folder, e.g. "stories-20000-0".
  static SourceText embedded(std::string key, std::string text);

  std::string_view text() const { return text_; }
  // The file's path as given, or the key: for messages.
  const std::string& name() const { return name_; }
  // The absolute path, or the key.
  const std::string& key() const { return key_; }
  // Last part of the name without its extension, e.g. "TinyStories-train".
  std::string stem() const;
  bool is_file() const { return is_file_; }
  // Time of the last change in nanoseconds since the epoch; 0 where not a file.
  int64_t modified_ns() const { return modified_ns_; }
  // Hashes the whole text.
  std::string sha256() const;

 private:
  std::string name_, key_;
  std::string_view text_;
  std::shared_ptr<const void> owner_;
  bool is_file_ = false;
  int64_t modified_ns_ = 0;
};

// Offset of the first byte that does not begin or continue a well-formed UTF-8 character
// (Unicode 15, table 3-7), if any.
std::optional<size_t> first_invalid_utf8(std::string_view text);
// kInvalidArgument naming byte offset, line and bytes when the text is not valid UTF-8.
Status check_utf8(const SourceText& source);

bool has_stories(std::string_view text);
// The texts between separators, blank ones left out; where trim, without white space around them.
// The views point into `text`.
std::vector<std::string_view> split_stories(std::string_view text, bool trim);

}  // namespace espalier
