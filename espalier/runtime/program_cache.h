// Compiled programs on disk, so that a second start compiles nothing.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "espalier/base/error.h"

namespace espalier {

// One file a program, "<key>.pjrt": the SHA-256 of its bytes in hexadecimal, a newline, the bytes.
// A damaged file counts as absent. Several processes may share a folder. Writing keeps the folder
// below `max_bytes` by removing the files that were used longest ago.
class ProgramCache {
 public:
  explicit ProgramCache(std::filesystem::path folder, uint64_t max_bytes = uint64_t{4} << 30)
      : folder_(std::move(folder)), max_bytes_(max_bytes) {}

  // The serialized program of a key, or nothing.
  std::optional<std::string> load(std::string_view key) const;
  Status store(std::string_view key, std::string_view program) const;

 private:
  std::filesystem::path path(std::string_view key) const;
  void prune() const;
  std::filesystem::path folder_;
  uint64_t max_bytes_;
};

// Instruction sets of this processor, as the system names them: code for one may not run on
// another.
std::string host_cpu_features();

}  // namespace espalier
