#include "espalier/checkpoint/digest.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <span>
#include <vector>

#include "espalier/base/file.h"
#include "espalier/base/sha256.h"

namespace espalier {
FileDigest digest_of(std::string_view text) { return {text.size(), sha256_hex(text)}; }

Result<FileDigest> digest_of_fd(int fd, const std::filesystem::path& path) {
  constexpr size_t kChunk = size_t{1} << 20;
  std::vector<std::byte> chunk(kChunk);
  Sha256 hash;
  for (off_t at = 0;;) {
    const ssize_t n = ::pread(fd, chunk.data(), chunk.size(), at);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno_failure("read", path);
    if (n == 0) return FileDigest{static_cast<uint64_t>(at), hash.hex()};
    hash.update(std::span(chunk).first(static_cast<size_t>(n)));
    at += n;
  }
}

Result<FileDigest> digest_of_file(const std::filesystem::path& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return errno_failure("open", path);
  ::posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
  auto out = digest_of_fd(fd, path);
  ::close(fd);
  return out;
}

}  // namespace espalier
