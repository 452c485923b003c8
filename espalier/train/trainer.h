// The training run: data, compiled steps, log lines, samples, evaluation and checkpoints.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "espalier/text/tokenizer.h"
#include "espalier/train/profile.h"
#include "espalier/train/setup.h"

namespace espalier {

// What a sampler is made of; all of it outlives the sampler.
struct Session {
  const RunConfig& config;
  const Mesh& mesh;
  const ShardingRules& rules;
  const std::shared_ptr<Runtime>& runtime;
  const LanguageModel& model;
  const StateLayout& layout;
  const Tokenizer& tokenizer;
};
// Writes a text with the present parameters; `step` seeds it, so that a resumed run writes the
// same.
using SampleText = std::function<Result<std::string>(TrainState& state, int64_t step)>;
using MakeSampler = std::function<Result<SampleText>(const Session& session)>;

struct TrainRequest {
  RunConfig config;
  std::filesystem::path run;  // its folder
  bool resume = false;
  std::filesystem::path compiled;    // a SavedProgram of the step, loaded in place of compiling
  std::optional<StepRange> profile;  // steps to be recorded, see Profile
  MakeSampler make_sampler;  // training does not depend on generation: the caller joins them
};

struct TrainSummary {
  int64_t steps = 0;                   // done in all
  int signal = 0;                      // that ended the run early, or 0
  std::optional<double> loss;          // of this session's last log line
  double seconds = 0;                  // over all sessions
  std::optional<double> fastest_step;  // seconds, StepClock::fastest() of this session
};

// Runs a recipe to its end, or until SIGINT or SIGTERM, after which the running step is finished
// and a checkpoint written. Everything that can be wrong with the input is said before the run's
// folder is made. Throws Error where model, mesh and rules do not fit together.
//
// A resumed run continues from its newest whole checkpoint with the losses, bit for bit, of a run
// that was never stopped: parameters, optimizer, data position, random keys and the running average
// of the loss are all in the checkpoint.
Result<TrainSummary> train(const TrainRequest& request);

}  // namespace espalier
