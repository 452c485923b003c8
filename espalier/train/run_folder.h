// RunFolder: where one training run keeps its files, held by one process at a time.
//
//   config.toml  metrics.jsonl  samples.txt  loss.svg  events.out.tfevents.*  checkpoints/
//
// samples.txt is a sequence of
//   === step 200 | "the prompt, as a JSON string" ===
//   the text, any number of lines
//   (an empty line)
// A line of a text that would look like such a header gets a space before it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/base/error.h"

namespace espalier {

struct Sample {
  int64_t step = 0;
  std::string prompt;
  std::string text;
  bool operator==(const Sample&) const = default;
};

// Holds a lock (flock on run.lock) as long as it lives; the system drops it when the process ends,
// however it ends. Not thread-safe.
class RunFolder {
 public:
  // Makes a new run's folder, which must not exist or be empty. kAlreadyExists when a run or other
  // files are there; kFailedPrecondition when another process trains there now.
  static Result<RunFolder> create(const std::filesystem::path& path);
  // Whether create() would find the place free; makes and locks nothing.
  static Status check_new(const std::filesystem::path& path);
  // Takes up an existing run. kNotFound when the folder has no config.toml; kFailedPrecondition as
  // above.
  static Result<RunFolder> resume(const std::filesystem::path& path);
  // "runs/<recipe's stem>-<YYYYMMDD-HHMMSS>" in local time, with "-2", "-3", ... where that exists.
  static std::filesystem::path default_path(const std::filesystem::path& recipe);

  RunFolder(RunFolder&& other) noexcept;
  RunFolder& operator=(RunFolder&& other) noexcept;
  ~RunFolder();

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path config() const { return path_ / "config.toml"; }
  std::filesystem::path metrics() const { return path_ / "metrics.jsonl"; }
  std::filesystem::path samples() const { return path_ / "samples.txt"; }
  std::filesystem::path plot() const { return path_ / "loss.svg"; }
  std::filesystem::path checkpoints() const { return path_ / "checkpoints"; }

  // Replaces config.toml atomically.
  Status write_config(std::string_view toml) const;
  Status append_sample(const Sample& sample) const;
  // Drops the samples of steps past `step`, atomically; a missing file is no error.
  Status truncate_samples(int64_t step) const;

 private:
  RunFolder(std::filesystem::path path, int lock) : path_(std::move(path)), lock_(lock) {}
  static Result<RunFolder> lock(const std::filesystem::path& path);
  std::filesystem::path path_;
  int lock_ = -1;
};

// The samples of a samples.txt, in its order.
Result<std::vector<Sample>> read_samples(const std::filesystem::path& path);

}  // namespace espalier
