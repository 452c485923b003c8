#include "espalier/data/byte_source.h"

#include <archive.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>
#include <zlib.h>

#include <cerrno>
#include <optional>

#include "espalier/base/file.h"

namespace espalier {
namespace fs = std::filesystem;
namespace {

constexpr size_t kBlockBytes = size_t{256} << 10;
constexpr size_t kUnpackedBytes = size_t{64} << 10;
constexpr int kMaxDepth = 4;
constexpr size_t kFirstBytes = 512;
constexpr std::string_view kGzip("\x1f\x8b\x08", 3), kXz("\xfd\x37zXZ\0", 6),
    kZstd("\x28\xb5\x2f\xfd", 4), kBzip2("BZh");

Failure damaged(const std::string& name, const std::string& how) {
  return {Code::kDataLoss, "'" + name + "' cannot be unpacked: " + how +
                               "; it is damaged or cut short: get it again"};
}

// Gives back bytes that were read to look at them.
class Prefixed : public ByteSource {
 public:
  Prefixed(std::string first, std::unique_ptr<ByteSource> rest)
      : first_(std::move(first)), rest_(std::move(rest)) {}
  Result<std::string_view> read() override {
    if (given_ || first_.empty()) return rest_->read();
    given_ = true;
    return std::string_view(first_);
  }

 private:
  std::string first_;
  std::unique_ptr<ByteSource> rest_;
  bool given_ = false;
};

// By zlib itself, since libarchive does not compare gzip's checksum.
class Gunzip : public ByteSource {
 public:
  Gunzip(std::unique_ptr<ByteSource> packed, std::string name)
      : packed_(std::move(packed)), name_(std::move(name)), block_(kUnpackedBytes, '\0') {
    if (inflateInit2(&stream_, 15 + 16) != Z_OK) {
      throw Error("zlib cannot start: out of memory", Code::kResourceExhausted);
    }
  }
  ~Gunzip() override { inflateEnd(&stream_); }

  Result<std::string_view> read() override {
    stream_.next_out = reinterpret_cast<Bytef*>(block_.data());
    stream_.avail_out = static_cast<uInt>(block_.size());
    while (stream_.avail_out == block_.size() && !ended_) ESPALIER_TRY(step());
    return std::string_view(block_.data(), block_.size() - stream_.avail_out);
  }

 private:
  Status step() {
    if (stream_.avail_in == 0) {
      ESPALIER_ASSIGN(const std::string_view input, packed_->read());
      if (input.empty()) {
        ended_ = true;
        if (between_) return {};
        return damaged(name_, "its gzip data ends early");
      }
      stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(input.data()));
      stream_.avail_in = static_cast<uInt>(input.size());
    }
    if (between_) {
      // Padding by zeros is usual on tapes; another member goes on with the text.
      while (stream_.avail_in > 0 && *stream_.next_in == 0) {
        ++stream_.next_in;
        --stream_.avail_in;
      }
      if (stream_.avail_in == 0) return {};
      inflateReset(&stream_);
      between_ = false;
    }
    const int code = inflate(&stream_, Z_NO_FLUSH);
    if (code == Z_STREAM_END) {
      between_ = true;
    } else if (code != Z_OK && code != Z_BUF_ERROR) {
      return damaged(name_, stream_.msg != nullptr ? std::string("gzip: ") + stream_.msg
                                                   : std::string("its gzip data is wrong"));
    }
    return {};
  }

  std::unique_ptr<ByteSource> packed_;
  std::string name_, block_;
  z_stream stream_{};
  bool between_ = false, ended_ = false;
};

// xz, zstd and bzip2 by libarchive, whose libraries compare their own checksums.
class Unpack : public ByteSource {
 public:
  Unpack(std::unique_ptr<ByteSource> packed, std::string name)
      : packed_(std::move(packed)),
        name_(std::move(name)),
        block_(kUnpackedBytes, '\0'),
        reader_(archive_read_new(), &archive_read_free) {}

  Status open() {
    archive* reader = reader_.get();
    if (reader == nullptr) return damaged(name_, "libarchive cannot start");
    archive_read_support_filter_xz(reader);
    archive_read_support_filter_zstd(reader);
    archive_read_support_filter_bzip2(reader);
    archive_read_support_format_raw(reader);
    archive_read_support_format_empty(reader);
    archive_entry* entry = nullptr;
    if (archive_read_open(reader, this, nullptr, &on_read, nullptr) != ARCHIVE_OK) return failed();
    const int code = archive_read_next_header(reader, &entry);
    empty_ = code == ARCHIVE_EOF;
    if (code < ARCHIVE_WARN) return failed();
    if (!empty_ && archive_filter_code(reader, 0) == ARCHIVE_FILTER_NONE) {
      return damaged(name_, "its first bytes are of a packed file, the next are not");
    }
    return {};
  }

  Result<std::string_view> read() override {
    if (empty_) return std::string_view();
    const la_ssize_t n = archive_read_data(reader_.get(), block_.data(), block_.size());
    if (n < 0) return failed().failure();
    empty_ = n == 0;
    return std::string_view(block_.data(), static_cast<size_t>(n));
  }

 private:
  static la_ssize_t on_read(archive* reader, void* user, const void** bytes) {
    auto& self = *static_cast<Unpack*>(user);
    auto block = self.packed_->read();
    if (!block) {
      self.failure_ = block.failure();
      archive_set_error(reader, EIO, "%s", block.failure().message.c_str());
      return -1;
    }
    *bytes = block->data();
    return static_cast<la_ssize_t>(block->size());
  }

  Status failed() const {
    if (failure_) return *failure_;
    const char* reason = archive_error_string(reader_.get());
    return damaged(name_, reason != nullptr ? reason : "its data is wrong");
  }

  std::unique_ptr<ByteSource> packed_;
  std::string name_, block_;
  std::optional<Failure> failure_;  // of packed_
  bool empty_ = false;              // nothing is left
  std::unique_ptr<archive, int (*)(archive*)> reader_;
};

}  // namespace

Result<std::unique_ptr<FileSource>> FileSource::open(const fs::path& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return errno_failure("open", path);
  ::posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
  return std::unique_ptr<FileSource>(new FileSource(path, fd));
}

FileSource::~FileSource() { ::close(fd_); }

Result<std::string_view> FileSource::read() {
  block_.resize(kBlockBytes);
  ssize_t n = 0;
  do {
    n = ::read(fd_, block_.data(), block_.size());
  } while (n < 0 && errno == EINTR);
  if (n < 0) return errno_failure("read", path_);
  *bytes_read_ += static_cast<uint64_t>(n);
  return std::string_view(block_.data(), static_cast<size_t>(n));
}

Result<Unpacked> unpack(std::unique_ptr<ByteSource> source, const std::string& name) {
  for (int depth = 0;; ++depth) {
    std::string first;
    while (first.size() < kFirstBytes) {
      ESPALIER_ASSIGN(const std::string_view block, source->read());
      if (block.empty()) break;
      first += block;
    }
    source = std::make_unique<Prefixed>(first, std::move(source));
    const bool gzip = first.starts_with(kGzip);
    if (!gzip && !first.starts_with(kXz) && !first.starts_with(kZstd) &&
        !first.starts_with(kBzip2)) {
      return Unpacked{std::move(source), std::move(first)};
    }
    if (depth == kMaxDepth) {
      return Failure{
          Code::kInvalidArgument,
          fmt::format("'{}' is packed more than {} times over; unpack it first", name, kMaxDepth)};
    }
    if (gzip) {
      source = std::make_unique<Gunzip>(std::move(source), name);
    } else {
      auto unpacked = std::make_unique<Unpack>(std::move(source), name);
      ESPALIER_TRY(unpacked->open());
      source = std::move(unpacked);
    }
  }
}

}  // namespace espalier
