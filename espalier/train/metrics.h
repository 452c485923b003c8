// metrics.jsonl: one JSON object a line for each logged step of a run, and reading it back.
//
//   {"step":20,"loss":3.1,"lr":0.0003,"grad_norm":0.9,"tokens_per_second":1e5,
//    "step_seconds":0.041,"elapsed_seconds":4.2,"mfu":0.41,"memory_bytes":1.2e9,"eta_seconds":42.0,"skipped_steps":1,
//    "val_loss":3.2,...}
//
// The keys stand in this order: step_seconds only where it is known, skipped_steps only where steps
// were skipped, val_loss only where an evaluation was made, then any extra numbers. A number that
// is not known, or that JSON cannot hold (NaN, infinity), is written as null.
#pragma once

#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "espalier/base/error.h"

namespace espalier {

struct StepMetrics {
  int64_t step = 0;  // steps done, from 1
  double loss = 0;   // mean over the step's tokens, in nats
  double lr = 0;
  double grad_norm = 0;  // before clipping
  double tokens_per_second = 0;
  std::optional<double> step_seconds;  // mean over the steps since the line before; see StepClock
  double elapsed_seconds = 0;          // since the run's start, time of earlier sessions included
  // Model FLOPs utilization, 0 to 1: the model's own operations a second over what the devices
  // could do. Not set where that is not known.
  std::optional<double> mfu;
  std::optional<double> memory_bytes;  // in use, of the fullest device; not set where not known
  // To the run's end, by the speed of late; NaN where not known yet.
  double seconds_left = std::numeric_limits<double>::quiet_NaN();
  int64_t skipped_steps = 0;  // of the run so far, whose loss or gradient was not finite
  std::optional<double> val_loss;
  std::vector<std::pair<std::string, double>> extra;
};

// Appends to a run's metrics.jsonl; each line is handed to the system at once, so that a killed
// process loses none. Not thread-safe.
class MetricsWriter {
 public:
  // Starts an empty file.
  static Result<MetricsWriter> create(const std::filesystem::path& path);
  // Goes on after `step`: lines of later steps and lines that are not whole (a crash while writing)
  // are dropped first, by atomic replacement. A missing file counts as an empty one.
  static Result<MetricsWriter> resume(const std::filesystem::path& path, int64_t step);
  MetricsWriter(MetricsWriter&& other) noexcept;
  MetricsWriter& operator=(MetricsWriter&& other) noexcept;
  ~MetricsWriter();

  Status write(const StepMetrics& metrics);
  // elapsed_seconds of the last line that resume() kept; 0 without one.
  double resumed_seconds() const { return resumed_seconds_; }

 private:
  MetricsWriter(std::filesystem::path path, int fd) : path_(std::move(path)), fd_(fd) {}
  static Result<MetricsWriter> open(const std::filesystem::path& path, int flags);
  std::filesystem::path path_;
  int fd_ = -1;
  double resumed_seconds_ = 0;
};

// The numbers of a logged step under the names that TensorBoard and Weights & Biases show:
// "train/loss", "train/learning_rate", ..., "val/loss", "train/NAME" for extra ones. What is not
// known is left out; a loss that is not finite stays.
std::vector<std::pair<std::string, double>> named_scalars(const StepMetrics& metrics);

// One line without its newline.
std::string to_json(const StepMetrics& metrics);
// Nothing when the text is not one line of metrics.jsonl with a step. A null reads as NaN.
std::optional<StepMetrics> metrics_from_json(std::string_view line);
// All the whole lines of a metrics.jsonl; lines that are not whole are left out.
Result<std::vector<StepMetrics>> read_metrics(const std::filesystem::path& path);

}  // namespace espalier
