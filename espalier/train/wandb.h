// Weights & Biases: a run's numbers as wandb's own offline runs, which `wandb sync` uploads:
//
//   RUN/wandb.json                                      project, entity, name and id of the run
//   RUN/wandb/offline-run-YYYYMMDD_HHMMSS-ID/run-ID.wandb   one a session
//
// Nothing is sent from here. All sessions of a run have one id, so that they are one run there.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "espalier/config/recipe.h"
#include "espalier/train/metrics.h"
#include "espalier/train/wandb_log.h"

namespace espalier {

// The recipe's table [logging.wandb].
struct WandbConfig {
  std::string project;                // "": off
  std::optional<std::string> name;    // not set: that of the run's folder
  std::optional<std::string> entity;  // user or team; not set: the account's own
  std::optional<std::string> id;      // to go on with a known run; not set: made
  bool enabled() const { return !project.empty(); }
};

// What W&B takes as the name of a project or entity, and what is an id: letters, digits, "-", "_".
Check wandb_name();
Check wandb_id();

template <class V>
void bind(V& v, WandbConfig& c) {
  v("project", c.project, wandb_name());
  v("name", c.name, not_empty());
  v("entity", c.entity, not_empty(), wandb_name());
  v("id", c.id, wandb_id());
}

// One session of a run. Not thread-safe.
class WandbRun {
 public:
  struct Start {
    std::filesystem::path folder;  // the run's
    // What json() gave for the checkpoint that the run goes on from; null: there is none.
    nlohmann::json stored;
    // Steps of that checkpoint; not set: the run begins anew, and so do its numbers.
    std::optional<int64_t> resumed_step;
    std::string recipe;  // as TOML; W&B shows it as the run's config
    bool writes = true;  // true in process 0 only; others make no files
  };

  // Takes the id from the recipe, from `stored`, from wandb.json, or makes one, in this order. An
  // id, project or entity of the recipe that is not that of the run so far is kInvalidArgument.
  //
  // What earlier sessions logged past `resumed_step` is dropped, as it will be logged anew. Where
  // it was uploaded already it stays, and log() passes over these steps: a resumed run repeats them
  // bit for bit.
  static Result<WandbRun> open(const WandbConfig& config, const Start& start);

  // {"project", "entity", "name", "id"}, for the metadata of every checkpoint; null in processes
  // that do not write.
  const nlohmann::json& json() const { return identity_; }
  // Appends the named_scalars() of a logged step.
  Status log(const StepMetrics& metrics);
  // The session's end. Without it, W&B calls the session failed.
  Status finish(int exit_code);
  // The shell command that uploads all sessions not yet uploaded.
  std::string command() const;

 private:
  WandbRun() = default;
  Status write(std::string record);
  Status begin_session(const Start& start);
  std::filesystem::path folder_;
  nlohmann::json identity_;
  std::optional<WandbLogWriter> log_;
  int64_t records_ = 0;
  int64_t uploaded_step_ = -1;  // the last that an uploaded session holds
  double runtime_ = 0;          // of the last logged step
};

}  // namespace espalier
