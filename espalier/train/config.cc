#include "espalier/train/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "espalier/base/file.h"
#include "espalier/train/pretrained.h"

namespace espalier {
namespace {

struct ModelHead {
  std::string name = "minigpt";
};
template <class V>
void bind(V& v, ModelHead& c) {
  v("name", c.name, one_of(model_names()));
}

}  // namespace

template <class V>
void bind(V& v, MeshConfig& c) {
  v("axes", c.axes, at_least(1));
}

template <class V>
void bind(V& v, ShardingConfig& c) {
  v("rules", c.rules);
  v("params", c.params);
}

template <class V>
void bind(V& v, TrainConfig& c) {
  v("steps", c.steps, at_least(0));
  v("epochs", c.epochs, at_least(1));
  v("log_every", c.log_every, at_least(0));
  v("eval_every", c.eval_every, at_least(0));
  v("eval_batches", c.eval_batches, at_least(0));
  v("checkpoint_every", c.checkpoint_every, at_least(0));
  v("keep_checkpoints", c.keep_checkpoints, at_least(0));
  v("accumulate", c.accumulate, at_least(1));
  v("dtype", c.dtype, one_of({"float32", "bfloat16"}));
  v("param_dtype", c.param_dtype, one_of({"float32", "bfloat16"}));
  v("remat", c.remat, one_of({"none", "everything", "dots", "dots_with_no_batch_dims", "names"}));
  v("remat_names", c.remat_names);
  v("offload", c.offload);
  v("z_loss", c.z_loss, at_least(0));
  v("ignore_id", c.ignore_id, between(-2147483648.0, 2147483647.0));  // as token ids: int32
  v("init_from", c.init_from, not_empty());
  v("weights_dir", c.weights_dir, not_empty());
  v("nonfinite", c.nonfinite, one_of({"stop", "skip"}));
  v("seed", c.seed);
}

template <class V>
void bind(V& v, SampleConfig& c) {
  v("prompt", c.prompt, not_empty());
  v("every", c.every, at_least(0));
  v("top_k", c.top_k, at_least(0));
  v("top_p", c.top_p, greater_than(0), at_most(1));
  v("temperature", c.temperature, greater_than(0));
  v("max_tokens", c.max_tokens, at_least(0));
  v("slide", c.slide);
}

template <class V>
void bind(V& v, RuntimeConfig& c) {
  v("plugin", c.plugin, not_empty());
  v("devices", c.devices, at_least(0));
  v("cache", c.cache);
  v("peak_flops", c.peak_flops, at_least(0));
}

template <class V>
void bind(V& v, LoggingConfig& c) {
  v("tensorboard", c.tensorboard);
  v("plot", c.plot);
  v.sub_table("wandb", c.wandb);
}

namespace {

// Reads every table but [model].
Status read_tables(Recipe& recipe, RunConfig& c) {
  ESPALIER_TRY(read_table(recipe, "data", c.data));
  ESPALIER_TRY(read_table(recipe, "mesh", c.mesh));
  ESPALIER_TRY(read_table(recipe, "sharding", c.sharding));
  ESPALIER_TRY(read_table(recipe, "optimizer", c.optimizer));
  ESPALIER_TRY(read_table(recipe, "train", c.train));
  ESPALIER_TRY(read_table(recipe, "sample", c.sample));
  ESPALIER_TRY(read_table(recipe, "runtime", c.runtime));
  ESPALIER_TRY(read_table(recipe, "logging", c.logging));
  return recipe.finish();
}

}  // namespace

Mesh RunConfig::make_mesh() const {
  std::vector<MeshAxis> axes;
  for (const auto& [name, size] : mesh.axes) axes.push_back({name, size});
  return Mesh(std::move(axes));
}

ShardingRules RunConfig::make_rules() const {
  const Mesh on = make_mesh();
  const NamedLists defaults = ShardingConfig().rules;
  ShardingRules out;
  for (const auto& [logical, axes] : sharding.rules) {
    const bool is_default =
        std::find(defaults.begin(), defaults.end(), std::pair(logical, axes)) != defaults.end();
    std::vector<std::string> kept = axes;
    if (is_default) std::erase_if(kept, [&](const std::string& axis) { return !on.has(axis); });
    if (!kept.empty() || !is_default) out.axes[logical] = kept;
  }
  for (const auto& [pattern, spec] : sharding.params) out.params.emplace_back(pattern, spec);
  return out;
}

RuntimeOptions RunConfig::runtime_options() const {
  RuntimeOptions options;
  options.plugin = runtime.plugin;
  options.mesh = make_mesh();
  options.devices = runtime.devices;
  if (runtime.cache) options.program_cache = default_program_cache();
  return options;
}

namespace {

DType named_dtype(const std::string& name) {
  return name == "bfloat16" ? DType::kBF16 : DType::kF32;
}

}  // namespace

DType RunConfig::compute_dtype() const { return named_dtype(train.dtype); }
DType RunConfig::param_dtype() const { return named_dtype(train.param_dtype); }

std::unique_ptr<LanguageModel> RunConfig::make_model(int64_t vocab_size) const {
  std::unique_ptr<LanguageModel> out = model->make(vocab_size);
  out->hold_params_in(param_dtype());
  return out;
}

std::optional<RematPolicy> RunConfig::remat_policy() const {
  using Saves = RematPolicy::Saves;
  if (train.remat == "none") return std::nullopt;
  const Saves saves = train.remat == "dots"                      ? Saves::kDots
                      : train.remat == "dots_with_no_batch_dims" ? Saves::kDotsWithNoBatchDims
                      : train.remat == "names"                   ? Saves::kNames
                                                                 : Saves::kNothing;
  return RematPolicy{saves, train.remat_names, train.offload};
}

namespace {

// Random tokens have no end, and are no text to make samples of.
Status settle_synthetic(RunConfig& c) {
  if (c.data.source != "synthetic") return {};
  if (c.train.steps == 0) {
    return Failure{Code::kInvalidArgument,
                   "data.source = \"synthetic\" has no end to count epochs by; set train.steps"};
  }
  if (c.sample.every.value_or(0) > 0) {
    return Failure{Code::kInvalidArgument,
                   "sample.every is set, but the tokens of data.source = \"synthetic\" are no text "
                   "to make samples of; leave it out"};
  }
  c.sample.every = 0;
  return {};
}

Status check_remat(const TrainConfig& train) {
  const auto wrong = [](std::string message) {
    return Failure{Code::kInvalidArgument, std::move(message)};
  };
  const bool named = train.remat == "names";
  if (named && train.remat_names.empty()) {
    return wrong(
        "train.remat = \"names\" needs train.remat_names, the names of the values to keep");
  }
  if (!named && !train.remat_names.empty()) {
    return wrong(
        fmt::format("train.remat_names has no use with train.remat = \"{}\"; set "
                    "train.remat = \"names\"",
                    train.remat));
  }
  if (train.offload && (train.remat == "none" || train.remat == "everything")) {
    return wrong(
        fmt::format("train.offload moves the values that a policy keeps, and train.remat "
                    "= \"{}\" names none; choose \"dots\", "
                    "\"dots_with_no_batch_dims\" or \"names\"",
                    train.remat));
  }
  return {};
}

Result<RunConfig> read_run_config(Recipe recipe) {
  RunConfig c;
  ModelHead head;
  ESPALIER_TRY(read_part(recipe, "model", head));
  const std::shared_ptr<ModelConfig> model = make_model_config(head.name);
  ESPALIER_TRY(model->read(recipe));
  c.model = model;
  ESPALIER_TRY(read_tables(recipe, c));
  ESPALIER_TRY(check_remat(c.train));
  ESPALIER_TRY(settle_synthetic(c));
  if (c.data.seq_len > model->max_len()) {
    return Failure{Code::kInvalidArgument,
                   fmt::format("data.seq_len = {} is longer than model.{} = {}; shorten the rows "
                               "or lengthen the model",
                               c.data.seq_len, model->max_len_key(), model->max_len())};
  }
  return c;
}

}  // namespace

Result<RunConfig> load_run_config(const std::filesystem::path& path,
                                  const std::vector<std::string>& overrides) {
  ESPALIER_ASSIGN(Recipe recipe, Recipe::load(path, overrides));
  return read_run_config(std::move(recipe));
}

Result<RunConfig> parse_run_config(std::string_view text, const std::string& name) {
  ESPALIER_ASSIGN(Recipe recipe, Recipe::parse(text, name));
  return read_run_config(std::move(recipe));
}

Result<RunConfig> load_hf_run_config(const std::filesystem::path& folder,
                                     const std::vector<std::string>& overrides) {
  ESPALIER_ASSIGN(const std::filesystem::path path, model_description(folder));
  ESPALIER_ASSIGN(const std::string text, read_file(path));
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  if (json.is_discarded()) {
    return Failure{Code::kDataLoss, "'" + path.string() + "' is not JSON; fetch it again"};
  }
  Result<std::unique_ptr<ModelConfig>> found = model_config_from_hf(json);
  if (!found) {
    return Failure{found.failure().code, "'" + path.string() + "': " + found.failure().message};
  }
  const std::shared_ptr<ModelConfig> model = std::move(*found);
  ESPALIER_ASSIGN(Recipe recipe, Recipe::parse("", "the command line", overrides));
  RunConfig c;
  ModelHead head{std::string(model->name())};
  ESPALIER_TRY(read_part(recipe, "model", head));
  ESPALIER_TRY(model->read(recipe));
  c.model = model;
  ESPALIER_TRY(read_tables(recipe, c));
  return c;
}

std::string to_toml(const RunConfig& config) {
  RecipeWriter writer;
  config.model->write(writer);
  writer.table("data", config.data);
  writer.table("mesh", config.mesh);
  writer.table("sharding", config.sharding);
  writer.table("optimizer", config.optimizer);
  writer.table("train", config.train);
  writer.table("sample", config.sample);
  writer.table("runtime", config.runtime);
  writer.table("logging", config.logging);
  return writer.text();
}

}  // namespace espalier
