// The file format of Weights & Biases' offline runs (".wandb"): LevelDB's log,
// https://github.com/google/leveldb/blob/main/doc/log_format.md, with two changes. The first block
// begins with 7 bytes, ":W&B", 0xbee1 and a version, 0; and checksums are plain CRC-32.
//
// Blocks of 32 KiB hold chunks: u32 checksum of type and bytes | u16 length | u8 type | bytes, with
// types 1 whole, 2 first, 3 middle, 4 last part of a record. Fewer than 7 bytes at a block's end
// are zero. Numbers are little-endian. Records are wandb's protobufs (proto/wandb.proto).
#pragma once

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/base/error.h"

namespace espalier {

// Writes a new log; each record is handed to the system at once. Not thread-safe.
class WandbLogWriter {
 public:
  // A file that exists is a failure.
  static Result<WandbLogWriter> create(const std::filesystem::path& path);
  Status write(std::string_view record);

 private:
  WandbLogWriter(std::filesystem::path path, std::FILE* file)
      : path_(std::move(path)), file_(file, &std::fclose) {}
  Status put(const std::string& bytes);
  std::filesystem::path path_;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
  size_t size_ = 0;
};

// The whole file of some records.
std::string wandb_log(const std::vector<std::string>& records);

// The records of a log, checksums verified. One that is cut off at the end, as a crash leaves it,
// is left out; anything else that is wrong is kDataLoss with its byte offset.
Result<std::vector<std::string>> read_wandb_log(const std::filesystem::path& path);

}  // namespace espalier
