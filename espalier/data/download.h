// Downloads by libcurl: resumed where they broke off, tried again, checked by SHA-256.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "espalier/base/error.h"

namespace espalier {

struct DownloadOptions {
  // 64 hexadecimal digits. Empty: the digest that the server itself names in the X-Linked-ETag
  // header (Hugging Face: that of the file in Git LFS), or none.
  std::string sha256;
  int attempts = 5;                       // in a row without a byte received
  std::chrono::milliseconds pause{1000};  // before the second attempt; doubled for each after
  // Bytes there, bytes in all (0: not known), from the calling thread.
  std::function<void(uint64_t, uint64_t)> progress = nullptr;
};

struct Downloaded {
  std::string sha256;    // of the whole file
  bool checked = false;  // it was compared with one known beforehand
  bool already_there = false;
  uint64_t resumed_at = 0;  // bytes that an earlier call had left
};

// Fetches an http(s) URL into `target`, by way of "TARGET.part", which a broken download leaves for
// the next call to go on with, and writes "TARGET.sha256" (sha256sum's format) beside it. A target
// that is there is kept, after its digest is compared with options.sha256 or with its .sha256.
// A digest that differs is kDataLoss, and the file is renamed to "TARGET.bad". Not reachable, or
// broken off too often: kUnavailable; 404: kNotFound. Proxies are taken from the environment.
Result<Downloaded> download(const std::string& url, const std::filesystem::path& target,
                            const DownloadOptions& options = {});

}  // namespace espalier
