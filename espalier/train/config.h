// TrainConfig and its neighbours: the tables of a recipe that belong to training, and RunConfig,
// the whole of a recipe.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "espalier/config/recipe.h"
#include "espalier/data/config.h"
#include "espalier/mesh/sharding_rules.h"
#include "espalier/models/minigpt.h"
#include "espalier/optim/config.h"

namespace espalier {

struct TrainConfig {
  int64_t steps = 0;        // 0: `epochs` passes over the data
  int64_t epochs = 1;       // used where steps is 0
  int64_t log_every = 200;  // every = 0 means never, here and below
  int64_t eval_every = 0;
  int64_t eval_batches = 8;  // of the validation rows, always the same ones
  int64_t checkpoint_every = 1000;
  int64_t keep_checkpoints = 3;  // the newest; 0 keeps all
  int64_t accumulate = 1;        // batches per step: gradients are averaged over them
  std::string dtype = "float32";
  uint64_t seed = 0;  // of initial parameters, dropout and samples
};

struct SampleConfig {
  std::string prompt = "Once upon a time";
  std::optional<int64_t> every;  // unset: train.log_every; 0: never
  int64_t top_k = 10;
  double temperature = 1.0;
  int64_t max_tokens = 0;  // tokens of the text, prompt included; 0: as many as the model takes
};

struct RuntimeConfig {
  std::string plugin = "cpu";
  int64_t devices = 0;  // on CPU: how many to make; 0: as many as the mesh has
  bool cache = true;    // keep compiled programs on disk
};

struct LoggingConfig {
  bool tensorboard = true;
  bool plot = true;  // loss.svg
};

struct MeshConfig {
  NamedInts axes;
};

struct ShardingConfig {
  // The defaults of every model: data parallel over "batch", tensor parallel over "model".
  NamedLists rules = {
      {"batch", {"batch"}}, {"heads", {"model"}}, {"mlp", {"model"}}, {"vocab", {"model"}}};
  NamedSpecs params;
};

// A recipe, every key resolved.
struct RunConfig {
  std::string model = "minigpt";
  MiniGptConfig minigpt;
  DataConfig data;
  MeshConfig mesh;
  ShardingConfig sharding;
  OptimizerConfig optimizer;
  TrainConfig train;
  SampleConfig sample;
  RuntimeConfig runtime;
  LoggingConfig logging;

  Mesh make_mesh() const;
  // Rules that name axes of the mesh only where they are the defaults: a mesh without "model" drops
  // the default rules for it, a rule of the recipe's own for a missing axis is an error later.
  ShardingRules make_rules() const;
};

// Reads and checks a recipe with its overrides. Every failure is kInvalidArgument (a missing file
// kNotFound) and names the place.
Result<RunConfig> load_run_config(const std::filesystem::path& path,
                                  const std::vector<std::string>& overrides);
// The recipe as TOML, every key with its value; reading it gives the same RunConfig.
std::string to_toml(const RunConfig& config);

// The model that the config names. `vocab_size` is the tokenizer's, used where the recipe gives
// none. Throws Error where sizes do not fit together.
std::unique_ptr<LanguageModel> make_model(const RunConfig& config, int64_t vocab_size);

}  // namespace espalier
