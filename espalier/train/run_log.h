// RunLog: where a run's numbers and texts go: metrics.jsonl, TensorBoard, Weights & Biases,
// samples.txt, loss.svg and standard output.
#pragma once

#include <memory>
#include <optional>

#include "espalier/train/config.h"
#include "espalier/train/metrics.h"
#include "espalier/train/progress.h"
#include "espalier/train/run_folder.h"
#include "espalier/train/step_clock.h"
#include "espalier/train/tensorboard.h"

namespace espalier {

// Not thread-safe.
class RunLog {
 public:
  // Goes on after `step` steps, dropping what was logged of later ones. `resumed`: the run goes on
  // from a checkpoint, whose metadata has `wandb` (null: none).
  static Result<std::unique_ptr<RunLog>> open(const RunFolder& folder, const RunConfig& config,
                                              int64_t step, int64_t total, bool resumed,
                                              const nlohmann::json& wandb);
  ~RunLog();

  ProgressBar& bar() { return *bar_; }
  // Seconds of earlier sessions.
  double earlier_seconds() const { return earlier_seconds_; }

  Status metrics(const StepMetrics& metrics);
  // A text made after a step; bytes that are not UTF-8 become U+FFFD.
  Status sample(int64_t step, const std::string& text);
  // A line on standard error, without breaking the bar.
  void warn(const std::string& text);
  // Of the W&B run, for a checkpoint's metadata; null where there is none.
  nlohmann::json wandb() const;
  // The session's end: draws the curves, ends the W&B session and says how to upload it.
  Status finish(int exit_code);

 private:
  RunLog(const RunFolder& folder, const RunConfig& config, MetricsWriter writer)
      : folder_(folder), config_(config), writer_(std::move(writer)) {}
  void draw_plot();

  const RunFolder& folder_;
  const RunConfig& config_;
  MetricsWriter writer_;
  std::optional<TensorBoardWriter> board_;
  std::optional<WandbRun> wandb_;
  std::unique_ptr<ProgressBar> bar_;
  double earlier_seconds_ = 0;
  double plotted_ = 0;  // when the curves were last drawn
  bool plot_failed_ = false, any_metrics_ = false;
};

// Bytes in use: of the fullest device where the plugin counts them, else of this process.
std::optional<double> memory_in_use(const Client& client);

}  // namespace espalier
