// SHA-256 (FIPS 180-4), by OpenSSL's libcrypto.
#pragma once

#include <array>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "espalier/base/error.h"

namespace espalier {

// A digest of bytes given piece by piece. Not thread-safe.
class Sha256 {
 public:
  Sha256();
  void update(std::span<const std::byte> bytes);
  void update(std::string_view text) { update(std::as_bytes(std::span(text.data(), text.size()))); }
  // 64 lower-case hexadecimal digits. Call once, last.
  std::string hex();

 private:
  std::shared_ptr<void> context_;
};

std::string sha256_hex(std::string_view text);
std::string sha256_hex(std::span<const std::byte> bytes);
// Of a file's content.
Result<std::string> sha256_of_file(const std::filesystem::path& path);

}  // namespace espalier
