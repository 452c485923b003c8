#include "espalier/base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace espalier {
namespace fs = std::filesystem;

Failure errno_failure(std::string_view what, const fs::path& path) {
  const int number = errno;
  Code code = Code::kInternal;
  std::string cure;
  if (number == ENOENT) code = Code::kNotFound;
  if (number == EEXIST) code = Code::kAlreadyExists;
  if (number == ENOSPC || number == EDQUOT) {
    code = Code::kResourceExhausted;
    cure = "; free some space and try again";
  }
  if (number == EACCES || number == EPERM || number == EROFS) {
    code = Code::kFailedPrecondition;
    cure = "; check the permissions";
  }
  return {code, "cannot " + std::string(what) + " '" + path.string() +
                    "': " + std::strerror(number) + cure};
}

Result<AtomicFile> AtomicFile::create(fs::path target) {
  fs::path temporary = target;
  temporary += ".XXXXXX.tmp";
  std::string name = temporary.string();
  const int fd = ::mkostemps(name.data(), 4, O_CLOEXEC);
  if (fd < 0) return errno_failure("create a file beside", target);
  ::fchmod(fd, 0644);
  return AtomicFile(std::move(target), name, fd);
}

AtomicFile::AtomicFile(fs::path target, fs::path temporary, int fd)
    : target_(std::move(target)), temporary_(std::move(temporary)), fd_(fd) {}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : target_(std::move(other.target_)),
      temporary_(std::move(other.temporary_)),
      fd_(std::exchange(other.fd_, -1)) {}

AtomicFile& AtomicFile::operator=(AtomicFile&& other) noexcept {
  if (this != &other) {
    abandon();
    target_ = std::move(other.target_);
    temporary_ = std::move(other.temporary_);
    fd_ = std::exchange(other.fd_, -1);
  }
  return *this;
}

AtomicFile::~AtomicFile() { abandon(); }

void AtomicFile::abandon() {
  if (fd_ < 0) return;
  ::close(fd_);
  ::unlink(temporary_.c_str());
  fd_ = -1;
}

Status AtomicFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd_, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno_failure("write", target_);
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
  return {};
}

Status AtomicFile::write(std::string_view text) {
  return write(std::as_bytes(std::span(text.data(), text.size())));
}

Status AtomicFile::write_at(uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno_failure("write", target_);
    bytes = bytes.subspan(static_cast<size_t>(n));
    offset += static_cast<uint64_t>(n);
  }
  return {};
}

Status AtomicFile::commit() {
  if (::fsync(fd_) != 0) return errno_failure("sync", target_);
  if (::rename(temporary_.c_str(), target_.c_str()) != 0)
    return errno_failure("rename to", target_);
  ::close(std::exchange(fd_, -1));
  return sync_folder(target_.has_parent_path() ? target_.parent_path() : fs::path("."));
}

Result<MappedFile> MappedFile::open(const fs::path& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return errno_failure("open", path);
  struct stat info {};
  if (::fstat(fd, &info) != 0 || S_ISDIR(info.st_mode)) {
    if (S_ISDIR(info.st_mode)) errno = EISDIR;
    const Failure failure = errno_failure("open", path);
    ::close(fd);
    return failure;
  }
  MappedFile out;
  out.path_ = path;
  out.size_ = static_cast<size_t>(info.st_size);
  if (out.size_ > 0) {
    void* memory = ::mmap(nullptr, out.size_, PROT_READ, MAP_PRIVATE, fd, 0);
    if (memory == MAP_FAILED) {
      const Failure failure = errno_failure("map", path);
      ::close(fd);
      return failure;
    }
    out.data_ = std::shared_ptr<const std::byte>(
        static_cast<const std::byte*>(memory),
        [size = out.size_](const std::byte* p) { ::munmap(const_cast<std::byte*>(p), size); });
  }
  ::close(fd);
  return out;
}

Result<std::string> read_file(const fs::path& path) {
  ESPALIER_ASSIGN(const MappedFile file, MappedFile::open(path));
  const auto bytes = file.bytes();
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

Status write_file(const fs::path& path, std::string_view text) {
  ESPALIER_ASSIGN(AtomicFile file, AtomicFile::create(path));
  ESPALIER_TRY(file.write(text));
  return file.commit();
}

Status sync_folder(const fs::path& folder) {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return errno_failure("open", folder);
  const int failed = ::fsync(fd);
  // Some file systems do not sync folders; that is no failure of ours.
  if (failed != 0 && errno != EINVAL) {
    const Failure failure = errno_failure("sync", folder);
    ::close(fd);
    return failure;
  }
  ::close(fd);
  return {};
}

Status make_folders(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) {
    errno = error.value();
    return errno_failure("create the folder", folder);
  }
  return {};
}

}  // namespace espalier
