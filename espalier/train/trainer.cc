#include "espalier/train/trainer.h"

#include <chrono>
#include <cmath>
#include <deque>
#include <nlohmann/json.hpp>

#include "espalier/base/file.h"
#include "espalier/base/log.h"
#include "espalier/data/dataset.h"
#include "espalier/data/loader.h"
#include "espalier/train/metrics.h"
#include "espalier/train/plot.h"
#include "espalier/train/progress.h"
#include "espalier/train/run_folder.h"
#include "espalier/train/run_position.h"
#include "espalier/train/step.h"
#include "espalier/train/stop_signal.h"
#include "espalier/train/tensorboard.h"

namespace espalier {
namespace {

// Steps running or waiting at once: enough that the device never waits for the host,
// few enough that a stop is prompt and batches in flight are few.
constexpr size_t kInFlight = 3;
// Between two drawings of loss.svg during the run; it is drawn at the end in any case.
constexpr double kPlotSeconds = 20;

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Tokens can be parts of a character: what is no UTF-8 becomes U+FFFD, as JSON's writer does it.
std::string replace_invalid_utf8(const std::string& text) {
  const std::string quoted =
      nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return nlohmann::json::parse(quoted).get<std::string>();
}

class Run {
 public:
  explicit Run(const TrainRequest& request) : request_(request), config_(request.config) {}

  Result<TrainSummary> operator()() {
    ESPALIER_TRY(prepare());
    // A run that goes on is held from here; a new one is made once all has been found right.
    if (request_.resume) {
      ESPALIER_TRY(open_folder());
    } else {
      ESPALIER_TRY(RunFolder::check_new(request_.run));
    }
    ESPALIER_TRY(build());
    if (!request_.resume) ESPALIER_TRY(open_folder());
    ESPALIER_TRY(start_state());
    return loop();
  }

 private:
  // Data, model and mesh: whatever is wrong with them is said here.
  Status prepare() {
    ESPALIER_ASSIGN(dataset_, open_dataset(config_.data));
    tokenizer_ = dataset_->tokenizer();
    model_ = make_model(config_, tokenizer_->vocab_size());
    ESPALIER_TRY(dataset_->check_vocab(model_->vocab_size()));
    const int64_t rows = config_.data.batch_size * config_.train.accumulate;
    loader_options_.batch_size = rows;
    loader_options_.shuffle = config_.data.shuffle;
    // Started once to check it; the run's own starts where the run is.
    ESPALIER_ASSIGN(const auto trial, Loader::start(dataset_->train(), loader_options_));
    steps_ = config_.train.steps;
    if (steps_ == 0) steps_ = dataset_->train()->rows() / rows * config_.train.epochs;
    if (config_.optimizer.schedule != "constant" && config_.optimizer.decay_steps == 0) {
      config_.optimizer.decay_steps = steps_;
    }
    ESPALIER_ASSIGN(Optimizer optimizer, make_optimizer(config_.optimizer));
    optimizer_ = std::make_unique<Optimizer>(std::move(optimizer));
    mesh_ = config_.make_mesh();
    rules_ = config_.make_rules();
    for (const std::string& axis : rules_.unused_axes(mesh_)) {
      err().warn(
          "no sharding rule names mesh axis '{}': devices along it do the same work twice; "
          "name it in [sharding.rules], for instance batch = \"{}\"",
          axis, axis);
    }
    layout_ = std::make_unique<StateLayout>(*model_, *optimizer_, rules_, mesh_);
    RuntimeOptions options;
    options.plugin = config_.runtime.plugin;
    options.mesh = mesh_;
    options.devices = config_.runtime.devices;
    if (config_.runtime.cache) options.program_cache = default_program_cache();
    ESPALIER_ASSIGN(runtime_, Runtime::create(std::move(options)));
    return {};
  }

  Status open_folder() {
    ESPALIER_ASSIGN(RunFolder folder, request_.resume ? RunFolder::resume(request_.run)
                                                      : RunFolder::create(request_.run));
    folder_ = std::make_unique<RunFolder>(std::move(folder));
    return {};
  }

  // What generation reads of a run.
  Status write_config() {
    ESPALIER_TRY(folder_->write_config(to_toml(config_)));
    ESPALIER_ASSIGN(const std::string tokenizer, tokenizer_->serialize());
    return write_file(folder_->path() / "tokenizer.txt", tokenizer);
  }

  Status build() {
    StepOptions options;
    options.batch_size = config_.data.batch_size;
    options.seq_len = config_.data.seq_len;
    options.accumulate = config_.train.accumulate;
    options.seed = config_.train.seed;
    ESPALIER_ASSIGN(TrainStep step,
                    TrainStep::create(runtime_, *model_, *optimizer_, *layout_, rules_, options));
    step_ = std::make_unique<TrainStep>(std::move(step));
    const CompileReport& report = step_->program().report();
    out().info("{} parameters on {} {} device{}, mesh {}; the step {} in {:.1f} s",
               format_count(static_cast<double>(num_parameters(model_->params()))), mesh_.size(),
               runtime_->client().platform_name(), mesh_.size() == 1 ? "" : "s", mesh_.to_string(),
               report.from_cache ? "came from the cache" : "was compiled", report.seconds);
    if (config_.train.eval_every > 0) ESPALIER_TRY(build_evaluation());
    if (sample_every() > 0 && request_.make_sampler) {
      ESPALIER_ASSIGN(sample_, request_.make_sampler({config_, mesh_, rules_, runtime_, *model_,
                                                      *layout_, *tokenizer_}));
    }
    return {};
  }

  Status build_evaluation() {
    const auto rows = dataset_->validation();
    const int64_t batch = config_.data.batch_size;
    if (rows->rows() < batch) {
      return Failure{Code::kInvalidArgument,
                     "train.eval_every is set, but only " + std::to_string(rows->rows()) +
                         " rows are held out for validation and a batch has " +
                         std::to_string(batch) +
                         "; raise data.validation_fraction, lower data.batch_size, or set "
                         "train.eval_every = 0"};
    }
    LoaderOptions options;
    options.batch_size = batch;
    options.shuffle = false;
    ESPALIER_ASSIGN(const auto loader, Loader::start(rows, options));
    const int64_t count = std::min(config_.train.eval_batches, rows->rows() / batch);
    if (count < config_.train.eval_batches) {
      out().info("evaluation takes {} batches, all that are held out, and not {}", count,
                 config_.train.eval_batches);
    }
    for (int64_t i = 0; i < count; ++i) {
      ESPALIER_ASSIGN(Batch next, loader->next());
      eval_batches_.push_back(std::move(next));
    }
    ESPALIER_ASSIGN(EvalStep eval, EvalStep::create(runtime_, *model_, *layout_, rules_, batch,
                                                    config_.data.seq_len));
    eval_ = std::make_unique<EvalStep>(std::move(eval));
    return {};
  }

  Status start_state() {
    position_.loader.seed = config_.data.seed;
    if (request_.resume) {
      Result<CheckpointReader> reader = CheckpointReader::open(folder_->checkpoints(), "latest");
      if (reader.ok()) {
        for (const std::string& warning : reader->warnings()) err().warn("{}", warning);
        ESPALIER_ASSIGN(position_, position_from_json(reader->metadata(), reader->folder()));
        ESPALIER_TRY(check_same_data(reader->metadata(), data_identity(*dataset_, config_.data)));
        ESPALIER_ASSIGN(state_, load_state(runtime_, *layout_, *reader));
        out().info("resumed after step {}", position_.step);
      } else if (reader.failure().code == Code::kNotFound) {
        out().info("no checkpoint yet in '{}': starting anew", folder_->path().string());
      } else {
        return reader.failure();
      }
    }
    if (state_.empty()) {
      ESPALIER_ASSIGN(state_, make_state(runtime_, *model_, *layout_, config_.train.seed));
    }
    // Only now, so that a resume that does not fit its checkpoint changes nothing.
    ESPALIER_TRY(write_config());
    // The text of step 0 is written again where the run starts there.
    ESPALIER_TRY(folder_->truncate_samples(position_.step == 0 ? -1 : position_.step));
    ESPALIER_ASSIGN(MetricsWriter metrics,
                    MetricsWriter::resume(folder_->metrics(), position_.step));
    earlier_seconds_ = metrics.resumed_seconds();
    metrics_ = std::make_unique<MetricsWriter>(std::move(metrics));
    if (config_.logging.tensorboard) {
      const auto resumed = request_.resume ? std::optional(position_.step) : std::nullopt;
      ESPALIER_ASSIGN(TensorBoardWriter board, TensorBoardWriter::open(folder_->path(), resumed));
      board_ = std::make_unique<TensorBoardWriter>(std::move(board));
    }
    ESPALIER_ASSIGN(loader_, Loader::start(dataset_->train(), loader_options_, position_.loader));
    return {};
  }

  Result<TrainSummary> loop() {
    ProgressBar bar(position_.step, steps_);
    bar_ = &bar;
    const StopSignal signal;
    started_ = window_started_ = now_seconds();
    if (position_.step == 0) ESPALIER_TRY(write_sample());
    while (position_.step < steps_ && signal.received() == 0) {
      while (in_flight_.size() >= kInFlight) ESPALIER_TRY(read_oldest());
      ESPALIER_ASSIGN(const Batch batch, loader_->next());
      ESPALIER_ASSIGN(DeviceArray report, step_->run(state_, batch));
      in_flight_.push_back(std::move(report));
      ++position_.step;
      position_.loader = batch.after;
      const bool last = position_.step == steps_;
      const bool evaluates = due(config_.train.eval_every, last);
      if (due(config_.train.log_every, last) || evaluates) ESPALIER_TRY(log_line(evaluates));
      if (due(sample_every(), last)) ESPALIER_TRY(write_sample());
      if (due(config_.train.checkpoint_every, last)) ESPALIER_TRY(save_checkpoint());
    }
    ESPALIER_TRY(read_all());
    const bool stopped = position_.step < steps_;
    if (stopped && saved_step_ != position_.step) ESPALIER_TRY(save_checkpoint());
    bar.clear();
    if (last_loss_) draw_plot();
    TrainSummary summary;
    summary.steps = position_.step;
    summary.signal = stopped ? signal.received() : 0;
    summary.loss = last_loss_;
    summary.seconds = elapsed();
    return summary;
  }

  // Whether something that happens every so many steps happens now; the last step counts too.
  bool due(int64_t every, bool last) const {
    return every > 0 && (last || position_.step % every == 0);
  }
  int64_t sample_every() const { return config_.sample.every.value_or(config_.train.log_every); }
  double elapsed() const { return earlier_seconds_ + now_seconds() - started_; }

  Status read_oldest() {
    ESPALIER_ASSIGN(last_report_, read_report(in_flight_.front()));
    in_flight_.pop_front();
    position_.loss_sum += last_report_.loss;
    ++position_.loss_count;
    ++window_steps_;
    bar_->update(position_.step - static_cast<int64_t>(in_flight_.size()), last_report_.loss,
                 tokens_per_second());
    return {};
  }

  // Waits for every step that was started.
  Status read_all() {
    while (!in_flight_.empty()) ESPALIER_TRY(read_oldest());
    return {};
  }

  // Over the steps since the last pause (log line, sample, checkpoint), pauses left out.
  double tokens_per_second() const {
    const double tokens = static_cast<double>(window_steps_) *
                          static_cast<double>(loader_options_.batch_size * config_.data.seq_len);
    return tokens / std::max(1e-9, now_seconds() - window_started_ - window_paused_);
  }

  Status log_line(bool evaluates) {
    ESPALIER_TRY(read_all());
    StepMetrics m;
    m.step = position_.step;
    m.loss = position_.loss_sum / static_cast<double>(std::max<int64_t>(position_.loss_count, 1));
    m.lr = last_report_.learning_rate;
    m.grad_norm = last_report_.grad_norm;
    m.tokens_per_second = tokens_per_second();
    if (evaluates) ESPALIER_TRY(evaluate(m));
    m.elapsed_seconds = elapsed();
    position_.loss_sum = 0;
    position_.loss_count = 0;
    last_loss_ = m.loss;
    ESPALIER_TRY(metrics_->write(m));
    bar_->log(m);
    if (board_ != nullptr) {
      ESPALIER_TRY(board_->scalar("train/loss", m.step, m.loss));
      ESPALIER_TRY(board_->scalar("train/learning_rate", m.step, m.lr));
      ESPALIER_TRY(board_->scalar("train/grad_norm", m.step, m.grad_norm));
      ESPALIER_TRY(board_->scalar("train/tokens_per_second", m.step, m.tokens_per_second));
      if (m.val_loss) ESPALIER_TRY(board_->scalar("val/loss", m.step, *m.val_loss));
    }
    if (now_seconds() - plotted_ > kPlotSeconds) draw_plot();
    window_started_ = now_seconds();
    window_steps_ = 0;
    window_paused_ = 0;
    return {};
  }

  Status evaluate(StepMetrics& m) {
    double sum = 0;
    for (const Batch& batch : eval_batches_) {
      ESPALIER_ASSIGN(const double loss, eval_->run(state_, batch));
      sum += loss;
    }
    m.val_loss = sum / static_cast<double>(eval_batches_.size());
    val_loss_ = {position_.step, *m.val_loss};
    return {};
  }

  Status write_sample() {
    if (!sample_) return {};
    ESPALIER_TRY(read_all());  // their time is not the sample's
    const double begin = now_seconds();
    ESPALIER_ASSIGN(const std::string raw, sample_(state_, position_.step));
    const std::string text = replace_invalid_utf8(raw);
    ESPALIER_TRY(folder_->append_sample({position_.step, config_.sample.prompt, text}));
    if (board_ != nullptr) ESPALIER_TRY(board_->text("sample", position_.step, text));
    bar_->print("--- text after step " + std::to_string(position_.step) + " ---\n" + text + "\n");
    window_paused_ += now_seconds() - begin;
    return {};
  }

  Status save_checkpoint() {
    ESPALIER_TRY(read_all());
    const double begin = now_seconds();
    std::vector<CheckpointTensor> tensors;
    for (const StoredArray& stored : layout_->stored()) {
      for (CheckpointTensor& t : stored_tensors(stored)) tensors.push_back(std::move(t));
    }
    ESPALIER_ASSIGN(CheckpointWriter writer,
                    CheckpointWriter::begin(folder_->checkpoints(), position_.step, tensors));
    ESPALIER_TRY(save_state(writer, *layout_, state_));
    CommitOptions options;
    options.keep = static_cast<int>(config_.train.keep_checkpoints);
    const bool evaluated = val_loss_ && val_loss_->first == position_.step;
    if (evaluated && std::isfinite(val_loss_->second) &&
        (!position_.best_val_loss || val_loss_->second < *position_.best_val_loss)) {
      options.best = true;
      position_.best_val_loss = val_loss_->second;
    }
    nlohmann::json metadata = to_json(position_);
    metadata["data"] = data_identity(*dataset_, config_.data);
    metadata["config"] = to_toml(config_);
    if (evaluated) metadata["val_loss"] = val_loss_->second;
    ESPALIER_ASSIGN(const CommittedCheckpoint saved, writer.commit(metadata, options));
    bar_->clear();
    for (const std::string& warning : saved.warnings) err().warn("{}", warning);
    saved_step_ = position_.step;
    window_paused_ += now_seconds() - begin;
    return {};
  }

  // The picture is a convenience: without gnuplot the run goes on and says so once.
  void draw_plot() {
    if (!config_.logging.plot || plot_failed_) return;
    plotted_ = now_seconds();
    if (const Status drawn = plot_runs({folder_->path()}, folder_->plot()); !drawn) {
      bar_->clear();
      err().warn("loss.svg is not drawn: {}", drawn.failure().message);
      plot_failed_ = true;
    }
  }

  const TrainRequest& request_;
  RunConfig config_;
  std::shared_ptr<const Dataset> dataset_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::unique_ptr<LanguageModel> model_;
  std::unique_ptr<Optimizer> optimizer_;
  Mesh mesh_;
  ShardingRules rules_;
  std::unique_ptr<StateLayout> layout_;
  LoaderOptions loader_options_;
  int64_t steps_ = 0;
  std::shared_ptr<Runtime> runtime_;
  std::unique_ptr<RunFolder> folder_;
  std::unique_ptr<TrainStep> step_;
  std::unique_ptr<EvalStep> eval_;
  std::vector<Batch> eval_batches_;
  SampleText sample_;
  TrainState state_;
  std::unique_ptr<MetricsWriter> metrics_;
  std::unique_ptr<TensorBoardWriter> board_;
  std::unique_ptr<Loader> loader_;
  ProgressBar* bar_ = nullptr;

  RunPosition position_;
  std::deque<DeviceArray> in_flight_;  // reports of steps not yet read
  StepReport last_report_;
  std::optional<double> last_loss_;                     // of the last line
  std::optional<std::pair<int64_t, double>> val_loss_;  // step and value of the last evaluation
  int64_t saved_step_ = -1;
  double earlier_seconds_ = 0, started_ = 0;
  double window_started_ = 0, window_paused_ = 0;
  int64_t window_steps_ = 0;
  double plotted_ = 0;
  bool plot_failed_ = false;
};

}  // namespace

Result<TrainSummary> train(const TrainRequest& request) { return Run(request)(); }

}  // namespace espalier
