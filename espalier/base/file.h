// Files: atomic replacement, memory maps, whole reads. Every failure names the path and the cause.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "espalier/base/error.h"

namespace espalier {

// A file written under a temporary name beside its target; commit() syncs it, renames it over the
// target and syncs the folder. Destroyed without commit(), the temporary is removed and the target
// is as it was. Not thread-safe.
class AtomicFile {
 public:
  static Result<AtomicFile> create(std::filesystem::path target);
  AtomicFile(AtomicFile&&) noexcept;
  AtomicFile& operator=(AtomicFile&&) noexcept;
  ~AtomicFile();

  Status write(std::span<const std::byte> bytes);
  Status write(std::string_view text);
  // Writes at a byte offset (the file may be sparse until then); does not move the end of write().
  Status write_at(uint64_t offset, std::span<const std::byte> bytes);
  Status commit();
  int fd() const { return fd_; }

 private:
  AtomicFile(std::filesystem::path target, std::filesystem::path temporary, int fd);
  void abandon();
  std::filesystem::path target_, temporary_;
  int fd_ = -1;
};

// A read-only memory map of a whole file. Safe to read from several threads.
class MappedFile {
 public:
  static Result<MappedFile> open(const std::filesystem::path& path);
  std::span<const std::byte> bytes() const { return {data_.get(), size_}; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  std::shared_ptr<const std::byte> data_;
  size_t size_ = 0;
};

Result<std::string> read_file(const std::filesystem::path& path);
// Whole text in one AtomicFile.
Status write_file(const std::filesystem::path& path, std::string_view text);
// Flushes a folder's entries (names) to the disk.
Status sync_folder(const std::filesystem::path& folder);
// Makes a folder and its parents; an existing folder is no error.
Status make_folders(const std::filesystem::path& folder);
// Failure for the current errno: "cannot WHAT 'PATH': REASON"; ENOSPC becomes kResourceExhausted,
// ENOENT kNotFound.
Failure errno_failure(std::string_view what, const std::filesystem::path& path);

}  // namespace espalier
