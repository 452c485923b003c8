// TextFile: the texts in a file, packed or not: the file itself, or the members of a tar.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/data/byte_source.h"

namespace espalier {

// What a file is, is told from its bytes: gzip, xz, zstd and bzip2 are unpacked, tars are opened,
// and both again in the members of tars, such as OpenWebText's tars of packed tars of texts. Empty
// texts, folders, links and "._*" are passed over. Not thread-safe.
//
// Damaged or truncated data is kDataLoss; bytes that are neither text nor a tar are
// kInvalidArgument. Messages name the file and the member.
class TextFile {
 public:
  static Result<TextFile> open(const std::filesystem::path& path);
  TextFile(TextFile&&) noexcept;
  ~TextFile();

  // Goes to the next text, whether or not this one was read to its end; false after the last.
  Result<bool> next();
  // For messages: the file's path, with ": MEMBER" for each tar on the way.
  const std::string& name() const;
  // The last part of the file's or member's name, without ".gz", ".xz", ".zst", ".bz2".
  const std::string& file_name() const;
  // Bytes of the text, valid until the next call; empty at its end.
  Result<std::string_view> read();

  // Bytes of the file read so far: for progress.
  uint64_t bytes_read() const { return *bytes_read_; }

 private:
  struct Level;
  TextFile(std::unique_ptr<FileSource> file, const std::filesystem::path& path);
  Status push(std::unique_ptr<ByteSource> source, std::string name, std::string file_name);
  Status drain();

  std::shared_ptr<const uint64_t> bytes_read_;
  std::unique_ptr<FileSource> unopened_;  // until the first next()
  std::filesystem::path path_;
  std::vector<std::unique_ptr<Level>> levels_;  // the outermost first
};

}  // namespace espalier
