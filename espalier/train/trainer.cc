#include "espalier/train/trainer.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "espalier/base/file.h"
#include "espalier/base/log.h"
#include "espalier/train/evaluation.h"
#include "espalier/train/nonfinite.h"
#include "espalier/train/peak_flops.h"
#include "espalier/train/run_log.h"
#include "espalier/train/run_position.h"
#include "espalier/train/step_queue.h"
#include "espalier/train/stop_signal.h"
#include "espalier/train/trainer_checkpoint.h"

namespace espalier {
namespace {

// Steps left out one after another, after which nothing suggests that a next one would be better.
constexpr int64_t kMostSkips = 10;

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
    ESPALIER_TRY(read_position());
    ESPALIER_TRY(make_first_state());
    ESPALIER_TRY(build());
    if (!resume_) ESPALIER_TRY(open_folder());
    ESPALIER_TRY(start());
    Result<TrainSummary> done = loop();
    if (!done) {
      bar().clear();
      // The failure that ended the run is the one to tell.
      if (profile_) profile_->finish(done_steps_);
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
    steps_ = std::make_unique<StepQueue>(*step_, trace_);
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

  // Where the run stands, and whether the profile that was asked for lies ahead of it.
  Status read_position() {
    position_.loader.seed = config().data.seed;
    if (checkpoint_) {
      ESPALIER_ASSIGN(position_,
                      position_from_json(checkpoint_->metadata(), checkpoint_->folder()));
    }
    if (!request_.profile) return {};
    return check_step_range(*request_.profile, position_.step, setup_.steps);
  }

  // Before anything compiles, since parameters that do not fit are said here.
  Status make_first_state() {
    if (!checkpoint_) {
      ESPALIER_ASSIGN(state_, first_state(setup_));
      return {};
    }
    const nlohmann::json& metadata = checkpoint_->metadata();
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
    LoaderOptions options = setup_.loader;
    if (request_.profile) {
      profile_.emplace(*request_.profile, folder_->path(), setup_.runtime->client(), trace_, *log_);
      options.filled = trace_.fills_after(position_.step);
    }
    ESPALIER_ASSIGN(loader_, Loader::start(setup_.dataset->train(), options, position_.loader));
    return {};
  }

  Result<TrainSummary> loop() {
    const StopSignal signal;
    const TrainConfig& train = config().train;
    started_ = now_seconds();
    steps_->clock().resume(started_);
    if (position_.step == 0) ESPALIER_TRY(write_sample());
    while (position_.step < setup_.steps && signal.received() == 0) {
      if (profile_ && profile_->begins_with(position_.step + 1)) {
        ESPALIER_TRY(pause(nullptr, [&] { return profile_->start(), Status(); }));
      }
      while (steps_->full()) ESPALIER_TRY(read_oldest());
      ESPALIER_ASSIGN(position_.loader, steps_->start(position_.step + 1, state_, *loader_));
      ++position_.step;
      const bool last = position_.step == setup_.steps;
      const bool evaluates = due(train.eval_every, last);
      if (due(train.log_every, last) || evaluates) ESPALIER_TRY(log_line(evaluates));
      if (due(sample_every(), last)) ESPALIER_TRY(write_sample());
      if (due(train.checkpoint_every, last)) ESPALIER_TRY(save_checkpoint());
      if (profile_ && profile_->ends_with(position_.step)) {
        ESPALIER_TRY(pause(nullptr, [&] { return profile_->finish(position_.step), Status(); }));
      }
    }
    ESPALIER_TRY(read_all());
    const bool stopped = position_.step < setup_.steps;
    if (stopped && saved_step_ != position_.step) ESPALIER_TRY(save_checkpoint());
    if (profile_) profile_->finish(position_.step);
    ESPALIER_TRY(log_->finish(0));
    TrainSummary summary;
    summary.steps = position_.step;
    summary.signal = stopped ? signal.received() : 0;
    summary.loss = last_loss_;
    summary.seconds = elapsed();
    summary.fastest_step = steps_->clock().fastest();
    return summary;
  }

  // Whether something that happens every so many steps happens now; the last step counts too.
  bool due(int64_t every, bool last) const {
    return every > 0 && (last || position_.step % every == 0);
  }
  int64_t sample_every() const { return config().sample.every.value_or(config().train.log_every); }
  double elapsed() const { return log_->earlier_seconds() + now_seconds() - started_; }

  Status read_oldest() {
    ESPALIER_ASSIGN(StepQueue::Done done, steps_->read());
    done_steps_ = done.number;
    last_report_ = std::move(done.report);
    if (last_report_.nonfinite) {
      ESPALIER_TRY(take_nonfinite(done.number));
    } else {
      skipped_in_a_row_ = 0;
      position_.loss_sum += last_report_.loss;
      ++position_.loss_count;
    }
    bar().update(done.number, last_report_.loss, tokens_per_second(), mfu(), memory_);
    return {};
  }

  // A step whose loss, gradient or update is not finite: the run ends, or goes on without the step.
  Status take_nonfinite(int64_t step) {
    const std::string what = describe_nonfinite(step, last_report_);
    if (config().train.nonfinite == "stop") return bad_state(what);
    ++position_.skipped_steps;
    if (++skipped_in_a_row_ >= kMostSkips) {
      return bad_state(fmt::format("{}; {} steps in a row were left out", what, kMostSkips));
    }
    log_->warn(what + "; the step is left out");
    return {};
  }

  Failure bad_state(const std::string& what) const {
    if (saved_step_ < 0) return nonfinite_failure(what, std::nullopt);
    return nonfinite_failure(what, folder_->checkpoints() / std::to_string(saved_step_));
  }

  // Waits for every step that was started.
  Status read_all() {
    while (!steps_->empty()) ESPALIER_TRY(read_oldest());
    return {};
  }

  // Over the steps since the last log line, pauses left out.
  double tokens_per_second() const {
    const double tokens = static_cast<double>(setup_.tokens_per_step());
    return tokens / std::max(1e-9, steps_->clock().mean().value_or(0));
  }

  std::optional<double> mfu() const {
    if (peak_flops_ <= 0) return std::nullopt;
    return tokens_per_second() * flops_per_token_ / peak_flops_;
  }

  // Runs what steps wait for, once all that were started are done; its time is none of theirs. In a
  // trace it has this name, if any.
  template <class Body>
  Status pause(const char* name, Body body) {
    ESPALIER_TRY(read_all());
    const double begin = now_seconds();
    ESPALIER_TRY(body());
    const double end = now_seconds();
    if (name != nullptr) trace_.add(TraceThread::kRun, name, begin, end, position_.step);
    steps_->clock().resume(end);
    bar().paused(end - begin);
    return {};
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
    m.step_seconds = steps_->clock().mean();
    m.mfu = mfu();
    m.memory_bytes = memory_ = memory_in_use(setup_.runtime->client());
    m.skipped_steps = position_.skipped_steps;
    if (evaluates) {
      ESPALIER_TRY(pause("eval", [&]() -> Status {
        ESPALIER_ASSIGN(m.val_loss, evaluation_->run(state_));
        if (std::isfinite(*m.val_loss)) return {};
        return bad_state(fmt::format("step {}: the validation loss is {}", position_.step,
                                     format_number(*m.val_loss)));
      }));
      val_loss_ = {position_.step, *m.val_loss};
    }
    m.elapsed_seconds = elapsed();
    m.seconds_left = bar().seconds_left();
    position_.loss_sum = 0;
    position_.loss_count = 0;
    last_loss_ = m.loss;
    steps_->clock().start_window();
    return pause("log", [&] { return log_->metrics(m); });
  }

  Status write_sample() {
    if (!sample_) return {};
    return pause("sample", [&]() -> Status {
      ESPALIER_ASSIGN(const std::string text, sample_(state_, position_.step));
      return log_->sample(position_.step, text);
    });
  }

  Status save_checkpoint() {
    return pause("checkpoint", [&]() -> Status {
      // A step's report is of the parameters before it: these are looked at here.
      if (probe_ != nullptr) {
        ESPALIER_ASSIGN(const double loss, probe_->loss(state_));
        if (!std::isfinite(loss)) {
          return bad_state(fmt::format("the parameters after step {} give a loss of {}",
                                       position_.step, format_number(loss)));
        }
      }
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
      ESPALIER_ASSIGN(const CommittedCheckpoint saved,
                      write_checkpoint(folder_->checkpoints(), position_.step, *setup_.layout,
                                       state_, metadata, options));
      for (const std::string& warning : saved.warnings) log_->warn(warning);
      saved_step_ = position_.step;
      return {};
    });
  }

  const TrainRequest& request_;
  const bool resume_;
  RunSetup setup_;
  std::unique_ptr<RunFolder> folder_;
  std::unique_ptr<RunLog> log_;
  Trace trace_;  // of a profile; the loader's thread writes to it
  std::unique_ptr<TrainStep> step_;
  std::unique_ptr<StepQueue> steps_;
  std::unique_ptr<Evaluation> evaluation_;
  std::unique_ptr<Probe> probe_;
  std::optional<CheckpointReader> checkpoint_;  // that the run goes on from, until it is read
  SampleText sample_;
  TrainState state_;
  std::optional<Profile> profile_;
  std::unique_ptr<Loader> loader_;

  RunPosition position_;
  StepReport last_report_;
  std::optional<double> last_loss_;                     // of the last line
  std::optional<std::pair<int64_t, double>> val_loss_;  // step and value of the last evaluation
  int64_t saved_step_ = -1;
  int64_t done_steps_ = 0;  // whose reports were read
  int64_t skipped_in_a_row_ = 0;
  double started_ = 0;
  double flops_per_token_ = 0, peak_flops_ = 0;
  std::optional<double> memory_;  // at the last line
};

}  // namespace

Result<TrainSummary> train(const TrainRequest& request) { return Run(request)(); }

}  // namespace espalier
