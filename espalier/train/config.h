// TrainConfig and its neighbours: the tables of a recipe that belong to training, and RunConfig,
// the whole of a recipe.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "espalier/config/recipe.h"
#include "espalier/data/config.h"
#include "espalier/mesh/sharding_rules.h"
#include "espalier/models/model_config.h"
#include "espalier/optim/config.h"
#include "espalier/runtime/runtime.h"
#include "espalier/train/wandb.h"

namespace espalier {

struct TrainConfig {
  int64_t steps = 0;        // 0: `epochs` passes over the data
  int64_t epochs = 1;       // used where steps is 0
  int64_t log_every = 200;  // every = 0 means never, here and below
  int64_t eval_every = 0;
  int64_t eval_batches = 8;  // of the validation rows, always the same ones; 0: all of them
  int64_t checkpoint_every = 1000;
  int64_t keep_checkpoints = 3;         // the newest; 0 keeps all
  int64_t accumulate = 1;               // batches per step: gradients are averaged over them
  std::string dtype = "float32";        // that models compute in
  std::string param_dtype = "float32";  // that parameters are held in; gradients have it too
  // What the layers keep for the backward pass, which computes the rest again: "none" (nothing is
  // computed again), "everything" (but the layers' inputs), "dots", "dots_with_no_batch_dims", or
  // "names": all but the values named in remat_names. See RematPolicy.
  std::string remat = "none";
  std::vector<std::string> remat_names;
  bool offload = false;              // what is kept waits in the host's memory
  double z_loss = 0;                 // see LossOptions
  std::optional<int64_t> ignore_id;  // targets with this id count for nothing
  // "scratch"; "resume": go on with the run in its folder; a published model's name (gpt2, ...),
  // whose weights `espalier prepare weights` fetched; or a folder: of such weights, or of a run.
  std::string init_from = "scratch";
  // Where a published model's weights lie: weights_dir/NAME.
  std::string weights_dir = "data/weights";
  std::string nonfinite = "stop";  // or "skip": such steps change nothing and are counted
  uint64_t seed = 0;               // of initial parameters, dropout and samples
};

struct SampleConfig {
  std::string prompt = "Once upon a time";
  std::optional<int64_t> every;  // unset: train.log_every; 0: never
  int64_t top_k = 10;            // draw among the k likeliest tokens; 0: among all
  double top_p = 1;  // draw among the fewest likeliest tokens that together have this probability
  double temperature = 1.0;
  int64_t max_tokens = 0;  // tokens of the text, prompt included; 0: as many as the model takes
  bool slide = false;      // go on past the model's length, over a window of the last tokens
};

struct RuntimeConfig {
  std::string plugin = "cpu";
  int64_t devices = 0;  // on CPU: how many to make; 0: as many as the mesh has
  bool cache = true;    // keep compiled programs on disk
  // FLOP/s of one device, for the share of it that a run makes use of; 0: the published number
  // of a known device, on others what a large product of matrices reaches.
  double peak_flops = 0;
};

struct LoggingConfig {
  bool tensorboard = true;
  bool plot = true;  // loss.svg
  WandbConfig wandb;
};

struct MeshConfig {
  NamedInts axes;
};

struct ShardingConfig {
  // The defaults of every model, for meshes whose axes have a familiar name: data parallel over
  // "batch", "data" or "dp"; fully sharded over "fsdp"; tensor parallel over "model", "tensor" or
  // "tp".
  NamedLists rules = {
      {"batch", {"batch", "data", "dp", "fsdp"}}, {"seq", {"context", "cp"}},
      {"heads", {"model", "tensor", "tp"}},       {"mlp", {"model", "tensor", "tp"}},
      {"vocab", {"model", "tensor", "tp"}},       {"embed", {"fsdp"}}};
  NamedSpecs params;
};

// A recipe, every key resolved.
struct RunConfig {
  std::shared_ptr<const ModelConfig> model = make_model_config("minigpt");
  DataConfig data;
  MeshConfig mesh;
  ShardingConfig sharding;
  OptimizerConfig optimizer;
  TrainConfig train;
  SampleConfig sample;
  RuntimeConfig runtime;
  LoggingConfig logging;

  Mesh make_mesh() const;
  // Of a default rule the axes that the mesh has; a rule of the recipe's own for a missing axis is
  // an error later.
  ShardingRules make_rules() const;
  RuntimeOptions runtime_options() const;
  DType compute_dtype() const;
  DType param_dtype() const;
  std::optional<RematPolicy> remat_policy() const;  // unset: "none"
  // `vocab_size` is the tokenizer's, used where the recipe gives none. Throws Error where sizes do
  // not fit together.
  std::unique_ptr<LanguageModel> make_model(int64_t vocab_size) const;
};

// Reads and checks a recipe with its overrides. Every failure is kInvalidArgument (a missing file
// kNotFound) and names the place.
Result<RunConfig> load_run_config(const std::filesystem::path& path,
                                  const std::vector<std::string>& overrides);
// The recipe as TOML, every key with its value; reading it gives the same RunConfig.
std::string to_toml(const RunConfig& config);

// The same from a recipe's text; `name` stands for the file in messages.
Result<RunConfig> parse_run_config(std::string_view text, const std::string& name);

// The defaults around the model of a Hugging Face folder's config.json, with overrides.
Result<RunConfig> load_hf_run_config(const std::filesystem::path& folder,
                                     const std::vector<std::string>& overrides);

}  // namespace espalier
