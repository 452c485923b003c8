#include "espalier/base/sha256.h"

#include <openssl/evp.h>

#include "espalier/base/file.h"

namespace espalier {
namespace {

EVP_MD_CTX* as_context(const std::shared_ptr<void>& context) {
  return static_cast<EVP_MD_CTX*>(context.get());
}

}  // namespace

Sha256::Sha256()
    : context_(EVP_MD_CTX_new(), [](void* p) { EVP_MD_CTX_free(static_cast<EVP_MD_CTX*>(p)); }) {
  if (!context_ || EVP_DigestInit_ex(as_context(context_), EVP_sha256(), nullptr) != 1) {
    throw Error("libcrypto cannot start a SHA-256 digest", Code::kInternal);
  }
}

void Sha256::update(std::span<const std::byte> bytes) {
  if (EVP_DigestUpdate(as_context(context_), bytes.data(), bytes.size()) != 1) {
    throw Error("libcrypto failed in a SHA-256 digest", Code::kInternal);
  }
}

std::string Sha256::hex() {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  if (EVP_DigestFinal_ex(as_context(context_), digest, &size) != 1) {
    throw Error("libcrypto failed in a SHA-256 digest", Code::kInternal);
  }
  constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  for (unsigned int i = 0; i < size; ++i) {
    out += kDigits[digest[i] >> 4];
    out += kDigits[digest[i] & 15];
  }
  return out;
}

std::string sha256_hex(std::string_view text) {
  return sha256_hex(std::as_bytes(std::span(text.data(), text.size())));
}

std::string sha256_hex(std::span<const std::byte> bytes) {
  Sha256 digest;
  digest.update(bytes);
  return digest.hex();
}

Result<std::string> sha256_of_file(const std::filesystem::path& path) {
  ESPALIER_ASSIGN(const MappedFile file, MappedFile::open(path));
  return sha256_hex(file.bytes());
}

}  // namespace espalier
