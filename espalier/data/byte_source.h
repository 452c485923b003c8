// Byte sources: a file's bytes, and what is packed in them (gzip, xz, zstd, bzip2), block by block.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "espalier/base/error.h"

namespace espalier {

// A stream of bytes. Not thread-safe.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // The next bytes, valid until the next call; empty at the end, and from then on.
  virtual Result<std::string_view> read() = 0;
};

// A file from its first byte to its last, by blocks of 256 KiB.
class FileSource : public ByteSource {
 public:
  static Result<std::unique_ptr<FileSource>> open(const std::filesystem::path& path);
  ~FileSource() override;
  Result<std::string_view> read() override;
  // Bytes read so far; outlives the source.
  std::shared_ptr<const uint64_t> bytes_read() const { return bytes_read_; }

 private:
  FileSource(std::filesystem::path path, int fd) : path_(std::move(path)), fd_(fd) {}
  std::filesystem::path path_;
  int fd_;
  std::string block_;
  std::shared_ptr<uint64_t> bytes_read_ = std::make_shared<uint64_t>(0);
};

// What `source` gives, unpacked as long as its first bytes are those of gzip, xz, zstd or bzip2,
// one inside the other up to four deep. Checksums are compared, gzip's too; damaged or truncated
// bytes are kDataLoss. `name` stands for the source in messages.
struct Unpacked {
  std::unique_ptr<ByteSource> source;
  // Of the unpacked bytes, at least 512 where there are as many; they come from `source` again.
  std::string first;
};
Result<Unpacked> unpack(std::unique_ptr<ByteSource> source, const std::string& name);

}  // namespace espalier
