// TensorBoard event files. Format: a sequence of records, each
//   uint64 length | uint32 masked_crc32c(length's 8 bytes) | bytes | uint32 masked_crc32c(bytes)
// little-endian, with masked(crc) = rotate_right(crc, 15) + 0xa282ead8 (TensorFlow's TFRecord,
// tensorflow/core/lib/io/record_writer.h); each record is an Event of proto/event.proto.
#pragma once

#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/base/error.h"
#include "espalier/train/metrics.h"

namespace espalier {

// This machine's name, as files for TensorBoard carry it.
std::string host_name();

// Writes one event file, "events.out.tfevents.<seconds since 1970>.<host>", in a run's folder; the
// time is moved on past that of the folder's files, since TensorBoard reads them in this order.
// Each call's record is handed to the system at once. Not thread-safe.
class TensorBoardWriter {
 public:
  // `resumed_step`: the step after which a resumed run goes on. The file begins by telling
  // TensorBoard to forget what earlier files say of later steps.
  static Result<TensorBoardWriter> open(const std::filesystem::path& folder,
                                        std::optional<int64_t> resumed_step = std::nullopt);

  // One number under a tag ("train/loss"), rounded to float.
  Status scalar(std::string_view tag, int64_t step, double value);
  // A text under a tag, shown as Markdown; bytes that are not UTF-8 are the caller's to avoid.
  Status text(std::string_view tag, int64_t step, std::string_view text);

  const std::filesystem::path& path() const { return path_; }

 private:
  TensorBoardWriter(std::filesystem::path path, std::FILE* file)
      : path_(std::move(path)), file_(file, &std::fclose) {}
  Status write_record(const std::string& bytes);
  std::filesystem::path path_;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
};

// The numbers of a logged step, under the tags of named_scalars().
Status write_scalars(TensorBoardWriter& writer, const StepMetrics& metrics);

// The records of an event file, checksums verified. A truncated or altered one is kDataLoss with
// its byte offset.
Result<std::vector<std::string>> read_records(const std::filesystem::path& path);

}  // namespace espalier
