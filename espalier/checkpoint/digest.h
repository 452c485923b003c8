// SHA-256 (FIPS 180-4) of bytes and files, as 64 lower-case hexadecimal digits.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "espalier/base/error.h"

namespace espalier {

// A file's size and SHA-256.
struct FileDigest {
  uint64_t bytes = 0;
  std::string sha256;
  bool operator==(const FileDigest&) const = default;
};

FileDigest digest_of(std::string_view text);
// Reads the whole file through `fd` from byte 0 without moving its position; `path` is for
// messages. It reads rather than maps, so that a bad disk gives a failure and no signal.
Result<FileDigest> digest_of_fd(int fd, const std::filesystem::path& path);
Result<FileDigest> digest_of_file(const std::filesystem::path& path);

}  // namespace espalier
