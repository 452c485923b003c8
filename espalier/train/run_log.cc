#include "espalier/train/run_log.h"

#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "espalier/base/log.h"
#include "espalier/train/plot.h"

namespace espalier {
namespace {

// Between two drawings of loss.svg during the run; it is drawn at the end in any case.
constexpr double kPlotSeconds = 20;

// Tokens can be parts of a character: what is no UTF-8 becomes U+FFFD, as JSON's writer does it.
std::string replace_invalid_utf8(const std::string& text) {
  const std::string quoted =
      nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return nlohmann::json::parse(quoted).get<std::string>();
}

}  // namespace

std::optional<double> memory_in_use(const Client& client) {
  std::optional<double> most;
  for (const Device& device : client.devices()) {
    const Result<DeviceMemoryStats> stats = device.memory_stats();
    if (stats) most = std::max(most.value_or(0), static_cast<double>(stats->bytes_in_use));
  }
  if (most) return most;
  std::ifstream file("/proc/self/statm");
  double total = 0, resident = 0;
  if (!(file >> total >> resident)) return std::nullopt;
  return resident * static_cast<double>(::sysconf(_SC_PAGESIZE));
}

Result<std::unique_ptr<RunLog>> RunLog::open(const RunFolder& folder, const RunConfig& config,
                                             int64_t step, int64_t total, bool resumed,
                                             const nlohmann::json& wandb) {
  // The text of step 0 is written again where the run starts there.
  ESPALIER_TRY(folder.truncate_samples(step == 0 ? -1 : step));
  ESPALIER_ASSIGN(MetricsWriter writer, MetricsWriter::resume(folder.metrics(), step));
  std::unique_ptr<RunLog> log(new RunLog(folder, config, std::move(writer)));
  log->earlier_seconds_ = log->writer_.resumed_seconds();
  const auto resumed_step = resumed ? std::optional(step) : std::nullopt;
  if (config.logging.tensorboard) {
    ESPALIER_ASSIGN(TensorBoardWriter board, TensorBoardWriter::open(folder.path(), resumed_step));
    log->board_ = std::move(board);
  }
  if (config.logging.wandb.enabled()) {
    ESPALIER_ASSIGN(WandbRun run,
                    WandbRun::open(config.logging.wandb,
                                   {folder.path(), wandb, resumed_step, to_toml(config)}));
    log->wandb_ = std::move(run);
  }
  log->bar_ = std::make_unique<ProgressBar>(step, total);
  return log;
}

RunLog::~RunLog() = default;

Status RunLog::metrics(const StepMetrics& m) {
  ESPALIER_TRY(writer_.write(m));
  any_metrics_ = true;
  bar_->log(m);
  if (board_) ESPALIER_TRY(write_scalars(*board_, m));
  if (wandb_) ESPALIER_TRY(wandb_->log(m));
  if (now_seconds() - plotted_ > kPlotSeconds) draw_plot();
  return {};
}

Status RunLog::sample(int64_t step, const std::string& raw) {
  const std::string text = replace_invalid_utf8(raw);
  ESPALIER_TRY(folder_.append_sample({step, config_.sample.prompt, text}));
  if (board_) ESPALIER_TRY(board_->text("sample", step, text));
  bar_->print("--- text after step " + std::to_string(step) + " ---\n" + text + "\n");
  return {};
}

void RunLog::warn(const std::string& text) {
  bar_->clear();
  err().warn("{}", text);
}

nlohmann::json RunLog::wandb() const { return wandb_ ? wandb_->json() : nlohmann::json(); }

Status RunLog::finish(int exit_code) {
  bar_->clear();
  if (any_metrics_) draw_plot();
  if (!wandb_) return {};
  ESPALIER_TRY(wandb_->finish(exit_code));
  out().info("to upload the run to Weights & Biases:\n  {}", wandb_->command());
  return {};
}

// The picture is a convenience: without gnuplot the run goes on and says so once.
void RunLog::draw_plot() {
  if (!config_.logging.plot || plot_failed_) return;
  plotted_ = now_seconds();
  if (const Status drawn = plot_runs({folder_.path()}, folder_.plot()); !drawn) {
    warn("loss.svg is not drawn: " + drawn.failure().message);
    plot_failed_ = true;
  }
}

}  // namespace espalier
