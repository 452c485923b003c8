// RunSetup: what a recipe names, opened and checked before anything compiles.
#pragma once

#include "espalier/data/dataset.h"
#include "espalier/data/loader.h"
#include "espalier/train/config.h"
#include "espalier/train/state.h"
#include "espalier/train/step.h"

namespace espalier {

struct RunSetup {
  RunConfig
      config;  // with what the data decides: the schedule's length, a pretrained model's sizes
  std::shared_ptr<const Dataset> dataset;
  std::shared_ptr<const Tokenizer> tokenizer;
  std::unique_ptr<LanguageModel> model;
  std::unique_ptr<Optimizer> optimizer;
  Mesh mesh;
  ShardingRules rules;
  std::unique_ptr<StateLayout> layout;
  LoaderOptions loader;  // of training
  int64_t steps = 0;     // of the whole run
  std::shared_ptr<Runtime> runtime;
  // Where the first parameters come from; empty: from the initializers.
  std::filesystem::path weights;

  ModelOnMesh on_mesh() const {
    return {*model, rules, config.compute_dtype(), config.remat_policy()};
  }
  int64_t tokens_per_step() const { return loader.batch_size * config.data.seq_len; }
};

// Says everything that can be wrong with data, model, mesh and optimizer. `fresh`: the run has no
// checkpoint of its own, so that train.init_from counts. Throws Error where model, mesh and rules
// do not fit together.
Result<RunSetup> set_up(const RunConfig& config, bool fresh);

// What the step is made of and no more, for compiling it: no devices, and no data where the recipe
// itself says the vocabulary's size and the schedule's length. `runtime` is null, `dataset` and
// `tokenizer` may be. Failures and throws as of set_up().
Result<RunSetup> set_up_step(const RunConfig& config);
StepOptions step_options(const RunConfig& config);

// The first state of a run: the initializers' values, or those of `setup.weights`.
Result<TrainState> first_state(const RunSetup& setup);

}  // namespace espalier
