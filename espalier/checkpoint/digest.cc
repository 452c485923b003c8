#include "espalier/checkpoint/digest.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <memory>
#include <vector>

#include "espalier/base/file.h"

namespace espalier {
namespace {

// Fails only when OpenSSL has no SHA-256 or no memory, which nothing here could go on from.
void require(int done) {
  if (done != 1) throw Error("OpenSSL could not compute a SHA-256", Code::kInternal);
}

class Sha256 {
 public:
  Sha256() : context_(EVP_MD_CTX_new(), EVP_MD_CTX_free) {
    require(EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr));
  }
  void add(const void* data, size_t bytes) {
    require(EVP_DigestUpdate(context_.get(), data, bytes));
    bytes_ += bytes;
  }
  FileDigest finish() {
    std::array<unsigned char, EVP_MAX_MD_SIZE> raw;
    unsigned size = 0;
    require(EVP_DigestFinal_ex(context_.get(), raw.data(), &size));
    FileDigest out{bytes_, {}};
    for (unsigned i = 0; i < size; ++i) {
      out.sha256 += "0123456789abcdef"[raw[i] >> 4];
      out.sha256 += "0123456789abcdef"[raw[i] & 15];
    }
    return out;
  }

 private:
  std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> context_;
  uint64_t bytes_ = 0;
};

}  // namespace

FileDigest digest_of(std::string_view text) {
  Sha256 hash;
  hash.add(text.data(), text.size());
  return hash.finish();
}

Result<FileDigest> digest_of_fd(int fd, const std::filesystem::path& path) {
  constexpr size_t kChunk = size_t{1} << 20;
  std::vector<std::byte> chunk(kChunk);
  Sha256 hash;
  for (off_t at = 0;;) {
    const ssize_t n = ::pread(fd, chunk.data(), chunk.size(), at);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno_failure("read", path);
    if (n == 0) return hash.finish();
    hash.add(chunk.data(), static_cast<size_t>(n));
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
