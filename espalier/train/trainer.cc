#include "espalier/train/trainer.h"

#include <fmt/format.h>

#include <cmath>
#include <deque>
#include <nlohmann/json.hpp>

#include "espalier/base/file.h"
#include "espalier/base/log.h"
#include "espalier/checkpoint/names.h"
#include "espalier/train/evaluation.h"
#include "espalier/train/peak_flops.h"
#include "espalier/train/run_log.h"
#include "espalier/train/run_position.h"
#include "espalier/train/stop_signal.h"

namespace espalier {
namespace {

// Steps running or waiting at once: enough that the device never waits for the host,
// few enough that a stop is prompt and batches in flight are few.
constexpr size_t kInFlight = 3;
// Steps left out one after another, after which nothing suggests that a next one would be better.
constexpr int64_t kMostSkips = 10;

std::string format_number(double value) {
  return std::isnan(value) ? "nan" : fmt::format("{:.6g}", value);
}

// Whether the checkpoint holds what the state consists of, and nothing else.
Status check_state_names(const CheckpointReader& reader, const StateLayout& layout) {
  std::vector<TensorInfo> expected;
  for (const StoredArray& stored : layout.stored()) {
    for (const CheckpointTensor& t : stored_tensors(stored)) expected.push_back(t.tensor);
  }
  return check_names(reader, expected, {});
}

class Run {
 public:
  explicit Run(const TrainRequest& request)
      : request_(request), resume_(request.resume || request.config.train.init_from == "resume") {}

  Result<TrainSummary> operator()() {
    // A run that goes on is held from here; a new one is made once all has been found right.
    if (resume_) {
      ESPALIER_TRY(open_folder());
      ESPALIER_TRY(open_checkpoint());
    } else {
      ESPALIER_TRY(RunFolder::check_new(request_.run));
    }
    ESPALIER_ASSIGN(setup_, set_up(request_.config, !checkpoint_));
    ESPALIER_TRY(make_first_state());
    ESPALIER_TRY(build());
    if (!resume_) ESPALIER_TRY(open_folder());
    ESPALIER_TRY(start());
    Result<TrainSummary> done = loop();
    if (!done) {
      bar().clear();
      // The failure that ended the run is the one to tell.
      if (const Status ended = log_->finish(1); !ended) err().warn("{}", ended.failure().message);
    }
    return done;
  }

 private:
  const RunConfig& config() const { return setup_.config; }
  ProgressBar& bar() { return log_->bar(); }

  Status open_folder() {
    ESPALIER_ASSIGN(RunFolder folder,
                    resume_ ? RunFolder::resume(request_.run) : RunFolder::create(request_.run));
    folder_ = std::make_unique<RunFolder>(std::move(folder));
    return {};
  }

  // What generation reads of a run.
  Status write_config() {
    ESPALIER_TRY(folder_->write_config(to_toml(config())));
    ESPALIER_ASSIGN(const std::string tokenizer, setup_.tokenizer->serialize());
    return write_file(folder_->path() / "tokenizer.txt", tokenizer);
  }

  Status build() {
    const TrainConfig& train = config().train;
    std::optional<SavedProgram> saved;
    if (!request_.compiled.empty()) {
      ESPALIER_ASSIGN(saved, SavedProgram::load(request_.compiled));
    }
    ESPALIER_ASSIGN(
        TrainStep step,
        TrainStep::create(setup_.runtime, setup_.on_mesh(), *setup_.optimizer, *setup_.layout,
                          step_options(config()), saved ? &*saved : nullptr));
    step_ = std::make_unique<TrainStep>(std::move(step));
    const CompileReport& report = step_->program().report();
    const int64_t devices = setup_.mesh.size();
    out().info("{} parameters on {} {} device{}, mesh {}; the step {} in {:.1f} s",
               format_count(static_cast<double>(num_parameters(setup_.model->params()))), devices,
               setup_.runtime->client().platform_name(), devices == 1 ? "" : "s",
               setup_.mesh.to_string(),
               report.from_file    ? "was loaded"
               : report.from_cache ? "came from the cache"
                                   : "was compiled",
               report.seconds);
    std::shared_ptr<EvalStep> eval_step;
    if (train.eval_every > 0 || train.checkpoint_every > 0) {
      ESPALIER_ASSIGN(eval_step, make_eval_step(setup_));
    }
    if (train.eval_every > 0) {
      ESPALIER_ASSIGN(Evaluation evaluation, Evaluation::create(setup_, eval_step));
      evaluation_ = std::make_unique<Evaluation>(std::move(evaluation));
    }
    if (train.checkpoint_every > 0) {
      ESPALIER_ASSIGN(Probe probe, Probe::create(setup_, eval_step));
      probe_ = std::make_unique<Probe>(std::move(probe));
    }
    if (sample_every() > 0 && request_.make_sampler) {
      ESPALIER_ASSIGN(sample_,
                      request_.make_sampler({config(), setup_.mesh, setup_.rules, setup_.runtime,
                                             *setup_.model, *setup_.layout, *setup_.tokenizer}));
    }
    flops_per_token_ = train_flops_per_token(*setup_.model, config().data.seq_len);
    const double given = config().runtime.peak_flops;
    peak_flops_ = given > 0 ? given * static_cast<double>(devices)
                            : peak_flops(*setup_.runtime, config().compute_dtype());
    return {};
  }

  Status open_checkpoint() {
    Result<CheckpointReader> reader = CheckpointReader::open(folder_->checkpoints(), "latest");
    if (reader.ok()) {
      for (const std::string& warning : reader->warnings()) err().warn("{}", warning);
      checkpoint_ = std::move(*reader);
      return {};
    }
    if (reader.failure().code != Code::kNotFound) return reader.failure();
    out().info("no checkpoint yet in '{}': starting anew", folder_->path().string());
    return {};
  }

  // Before anything compiles, since parameters that do not fit are said here.
  Status make_first_state() {
    position_.loader.seed = config().data.seed;
    if (!checkpoint_) {
      ESPALIER_ASSIGN(state_, first_state(setup_));
      return {};
    }
    const nlohmann::json& metadata = checkpoint_->metadata();
    ESPALIER_ASSIGN(position_, position_from_json(metadata, checkpoint_->folder()));
    ESPALIER_TRY(check_same_model(metadata.value("config", ""),
                                  (checkpoint_->folder() / "metadata.json").string(), config()));
    ESPALIER_TRY(check_same_data(metadata, data_identity(*setup_.dataset, config().data)));
    ESPALIER_TRY(check_state_names(*checkpoint_, *setup_.layout));
    ESPALIER_ASSIGN(state_, load_state(setup_.runtime, *setup_.layout, *checkpoint_));
    saved_step_ = position_.step;
    return {};
  }

  Status start() {
    // Only now, so that a resume that does not fit its checkpoint changes nothing.
    ESPALIER_TRY(write_config());
    nlohmann::json wandb;
    if (checkpoint_) {
      wandb = checkpoint_->metadata().value("wandb", nlohmann::json());
      out().info("resumed after step {}{}", position_.step,
                 position_.step >= setup_.steps ? "; nothing is left to do" : "");
      checkpoint_.reset();
    }
    ESPALIER_ASSIGN(log_,
                    RunLog::open(*folder_, config(), position_.step, setup_.steps, resume_, wandb));
    ESPALIER_ASSIGN(loader_,
                    Loader::start(setup_.dataset->train(), setup_.loader, position_.loader));
    return {};
  }

  Result<TrainSummary> loop() {
    const StopSignal signal;
    const TrainConfig& train = config().train;
    started_ = window_started_ = now_seconds();
    if (position_.step == 0) ESPALIER_TRY(write_sample());
    while (position_.step < setup_.steps && signal.received() == 0) {
      while (in_flight_.size() >= kInFlight) ESPALIER_TRY(read_oldest());
      ESPALIER_ASSIGN(const Batch batch, loader_->next());
      ESPALIER_ASSIGN(PendingReport report, step_->run(state_, batch));
      in_flight_.push_back(std::move(report));
      ++position_.step;
      position_.loader = batch.after;
      const bool last = position_.step == setup_.steps;
      const bool evaluates = due(train.eval_every, last);
      if (due(train.log_every, last) || evaluates) ESPALIER_TRY(log_line(evaluates));
      if (due(sample_every(), last)) ESPALIER_TRY(write_sample());
      if (due(train.checkpoint_every, last)) ESPALIER_TRY(save_checkpoint());
    }
    ESPALIER_TRY(read_all());
    const bool stopped = position_.step < setup_.steps;
    if (stopped && saved_step_ != position_.step) ESPALIER_TRY(save_checkpoint());
    ESPALIER_TRY(log_->finish(0));
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
  int64_t sample_every() const { return config().sample.every.value_or(config().train.log_every); }
  double elapsed() const { return log_->earlier_seconds() + now_seconds() - started_; }

  Status read_oldest() {
    ESPALIER_ASSIGN(last_report_, step_->read(in_flight_.front()));
    const int64_t step = position_.step - static_cast<int64_t>(in_flight_.size()) + 1;
    in_flight_.pop_front();
    ++window_steps_;
    if (last_report_.nonfinite) {
      ESPALIER_TRY(take_nonfinite(step));
    } else {
      skipped_in_a_row_ = 0;
      position_.loss_sum += last_report_.loss;
      ++position_.loss_count;
    }
    bar().update(step, last_report_.loss, tokens_per_second(), mfu(), memory_);
    return {};
  }

  // A step whose loss, gradient or update is not finite: the run ends, or goes on without the step.
  Status take_nonfinite(int64_t step) {
    const std::string& parameter = last_report_.nonfinite_parameter;
    const std::string what = fmt::format(
        "step {}: the loss is {}, the gradient's norm {}{}", step, format_number(last_report_.loss),
        format_number(last_report_.grad_norm),
        parameter.empty() ? "; the update is not finite"
                          : "; the first gradient that is not finite is of '" + parameter + "'");
    if (config().train.nonfinite == "stop") return bad_state(what);
    ++position_.skipped_steps;
    if (++skipped_in_a_row_ >= kMostSkips) {
      return bad_state(fmt::format("{}; {} steps in a row were left out", what, kMostSkips));
    }
    log_->warn(what + "; the step is left out");
    return {};
  }

  Failure bad_state(const std::string& what) const {
    const std::string kept =
        saved_step_ < 0 ? "no checkpoint had been written"
                        : "the last good checkpoint is '" +
                              (folder_->checkpoints() / std::to_string(saved_step_)).string() + "'";
    return Failure{Code::kFailedPrecondition,
                   what + ". The run stops; " + kept +
                       ". Lower optimizer.learning_rate, set optimizer.clip_norm or lengthen "
                       "optimizer.warmup_steps; train.nonfinite = \"skip\" leaves out single steps "
                       "that are not finite"};
  }

  // Waits for every step that was started.
  Status read_all() {
    while (!in_flight_.empty()) ESPALIER_TRY(read_oldest());
    return {};
  }

  // Over the steps since the last pause (log line, sample, checkpoint), pauses left out.
  double tokens_per_second() const {
    const double tokens = static_cast<double>(window_steps_ * setup_.tokens_per_step());
    return tokens / std::max(1e-9, now_seconds() - window_started_ - window_paused_);
  }

  std::optional<double> mfu() const {
    if (peak_flops_ <= 0) return std::nullopt;
    return tokens_per_second() * flops_per_token_ / peak_flops_;
  }

  void pause_ended(double begin) {
    const double seconds = now_seconds() - begin;
    window_paused_ += seconds;
    bar().paused(seconds);
  }

  Status log_line(bool evaluates) {
    ESPALIER_TRY(read_all());
    StepMetrics m;
    m.step = position_.step;
    m.loss = position_.loss_count > 0
                 ? position_.loss_sum / static_cast<double>(position_.loss_count)
                 : last_report_.loss;
    m.lr = last_report_.learning_rate;
    m.grad_norm = last_report_.grad_norm;
    m.tokens_per_second = tokens_per_second();
    m.mfu = mfu();
    m.memory_bytes = memory_ = memory_in_use(setup_.runtime->client());
    m.skipped_steps = position_.skipped_steps;
    if (evaluates) {
      const double begin = now_seconds();
      ESPALIER_ASSIGN(m.val_loss, evaluation_->run(state_));
      if (!std::isfinite(*m.val_loss)) {
        return bad_state(fmt::format("step {}: the validation loss is {}", position_.step,
                                     format_number(*m.val_loss)));
      }
      val_loss_ = {position_.step, *m.val_loss};
      pause_ended(begin);
    }
    m.elapsed_seconds = elapsed();
    m.seconds_left = bar().seconds_left();
    position_.loss_sum = 0;
    position_.loss_count = 0;
    last_loss_ = m.loss;
    const double begin = now_seconds();
    ESPALIER_TRY(log_->metrics(m));
    pause_ended(begin);
    window_started_ = now_seconds();
    window_steps_ = 0;
    window_paused_ = 0;
    return {};
  }

  Status write_sample() {
    if (!sample_) return {};
    ESPALIER_TRY(read_all());  // their time is not the sample's
    const double begin = now_seconds();
    ESPALIER_ASSIGN(const std::string text, sample_(state_, position_.step));
    ESPALIER_TRY(log_->sample(position_.step, text));
    pause_ended(begin);
    return {};
  }

  Status save_checkpoint() {
    ESPALIER_TRY(read_all());
    const double begin = now_seconds();
    // A step's report is of the parameters before it: these are looked at here.
    if (probe_ != nullptr) {
      ESPALIER_ASSIGN(const double loss, probe_->loss(state_));
      if (!std::isfinite(loss)) {
        return bad_state(fmt::format("the parameters after step {} give a loss of {}",
                                     position_.step, format_number(loss)));
      }
    }
    std::vector<CheckpointTensor> tensors;
    for (const StoredArray& stored : setup_.layout->stored()) {
      for (CheckpointTensor& t : stored_tensors(stored)) tensors.push_back(std::move(t));
    }
    ESPALIER_ASSIGN(CheckpointWriter writer,
                    CheckpointWriter::begin(folder_->checkpoints(), position_.step, tensors));
    ESPALIER_TRY(save_state(writer, *setup_.layout, state_));
    CommitOptions options;
    options.keep = static_cast<int>(config().train.keep_checkpoints);
    const bool evaluated = val_loss_ && val_loss_->first == position_.step;
    if (evaluated && (!position_.best_val_loss || val_loss_->second < *position_.best_val_loss)) {
      options.best = true;
      position_.best_val_loss = val_loss_->second;
    }
    nlohmann::json metadata = to_json(position_);
    metadata["data"] = data_identity(*setup_.dataset, config().data);
    metadata["config"] = to_toml(config());
    if (const nlohmann::json wandb = log_->wandb(); !wandb.is_null()) metadata["wandb"] = wandb;
    if (evaluated) metadata["val_loss"] = val_loss_->second;
    ESPALIER_ASSIGN(const CommittedCheckpoint saved, writer.commit(metadata, options));
    for (const std::string& warning : saved.warnings) log_->warn(warning);
    saved_step_ = position_.step;
    pause_ended(begin);
    return {};
  }

  const TrainRequest& request_;
  const bool resume_;
  RunSetup setup_;
  std::unique_ptr<RunFolder> folder_;
  std::unique_ptr<RunLog> log_;
  std::unique_ptr<TrainStep> step_;
  std::unique_ptr<Evaluation> evaluation_;
  std::unique_ptr<Probe> probe_;
  std::optional<CheckpointReader> checkpoint_;  // that the run goes on from, until it is read
  SampleText sample_;
  TrainState state_;
  std::unique_ptr<Loader> loader_;

  RunPosition position_;
  std::deque<PendingReport> in_flight_;  // of steps not yet read
  StepReport last_report_;
  std::optional<double> last_loss_;                     // of the last line
  std::optional<std::pair<int64_t, double>> val_loss_;  // step and value of the last evaluation
  int64_t saved_step_ = -1;
  int64_t skipped_in_a_row_ = 0;
  double started_ = 0, window_started_ = 0, window_paused_ = 0;
  int64_t window_steps_ = 0;
  double flops_per_token_ = 0, peak_flops_ = 0;
  std::optional<double> memory_;  // at the last line
};

}  // namespace

Result<TrainSummary> train(const TrainRequest& request) { return Run(request)(); }

}  // namespace espalier
