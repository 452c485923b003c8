#include "espalier/train/config.h"

#include <algorithm>

namespace espalier {
namespace {

struct ModelHead {
  std::string name = "minigpt";
};
template <class V>
void bind(V& v, ModelHead& c) {
  v("name", c.name, one_of({"minigpt"}));
}

}  // namespace

template <class V>
void bind(V& v, DataConfig& c) {
  v("source", c.source, one_of({"stories", "text", "file", "tinystories"}));
  v("path", c.path);
  v("tokenizer", c.tokenizer, not_empty());
  v("seq_len", c.seq_len, at_least(2));
  v("batch_size", c.batch_size, at_least(1));
  v("seed", c.seed);
  v("shuffle", c.shuffle);
  v("trim", c.trim);
  v("stories_count", c.stories_count, at_least(1));
  v("stories_seed", c.stories_seed);
  v("validation_fraction", c.validation_fraction, at_least(0), less_than(1));
  v("cache_dir", c.cache_dir, not_empty());
}

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
  v("eval_batches", c.eval_batches, at_least(1));
  v("checkpoint_every", c.checkpoint_every, at_least(0));
  v("keep_checkpoints", c.keep_checkpoints, at_least(0));
  v("accumulate", c.accumulate, at_least(1));
  v("dtype", c.dtype, one_of({"float32"}));
  v("seed", c.seed);
}

template <class V>
void bind(V& v, SampleConfig& c) {
  v("prompt", c.prompt, not_empty());
  v("every", c.every, at_least(0));
  v("top_k", c.top_k, at_least(1));
  v("temperature", c.temperature, greater_than(0));
  v("max_tokens", c.max_tokens, at_least(0));
}

template <class V>
void bind(V& v, RuntimeConfig& c) {
  v("plugin", c.plugin, not_empty());
  v("devices", c.devices, at_least(0));
  v("cache", c.cache);
}

template <class V>
void bind(V& v, LoggingConfig& c) {
  v("tensorboard", c.tensorboard);
  v("plot", c.plot);
}

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
    const bool known = std::all_of(axes.begin(), axes.end(),
                                   [&](const std::string& axis) { return on.has(axis); });
    if (known || !is_default) out.axes[logical] = axes;
  }
  for (const auto& [pattern, spec] : sharding.params) out.params.emplace_back(pattern, spec);
  return out;
}

Result<RunConfig> load_run_config(const std::filesystem::path& path,
                                  const std::vector<std::string>& overrides) {
  ESPALIER_ASSIGN(Recipe recipe, Recipe::load(path, overrides));
  RunConfig c;
  ModelHead head;
  ESPALIER_TRY(read_part(recipe, "model", head));
  c.model = head.name;
  ESPALIER_TRY(read_table(recipe, "model", head, c.minigpt));
  ESPALIER_TRY(read_table(recipe, "data", c.data));
  ESPALIER_TRY(read_table(recipe, "mesh", c.mesh));
  ESPALIER_TRY(read_table(recipe, "sharding", c.sharding));
  ESPALIER_TRY(read_table(recipe, "optimizer", c.optimizer));
  ESPALIER_TRY(read_table(recipe, "train", c.train));
  ESPALIER_TRY(read_table(recipe, "sample", c.sample));
  ESPALIER_TRY(read_table(recipe, "runtime", c.runtime));
  ESPALIER_TRY(read_table(recipe, "logging", c.logging));
  ESPALIER_TRY(recipe.finish());
  if (c.data.seq_len > c.minigpt.maxlen) {
    return Failure{Code::kInvalidArgument,
                   "data.seq_len = " + std::to_string(c.data.seq_len) +
                       " is longer than model.maxlen = " + std::to_string(c.minigpt.maxlen) +
                       "; shorten the rows or lengthen the model"};
  }
  return c;
}

std::string to_toml(const RunConfig& config) {
  RecipeWriter writer;
  writer.table("model", ModelHead{config.model}, config.minigpt);
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

std::unique_ptr<LanguageModel> make_model(const RunConfig& config, int64_t vocab_size) {
  MiniGptConfig c = config.minigpt;
  if (c.vocab_size == 0) c.vocab_size = vocab_size;
  return make_minigpt(c);
}

}  // namespace espalier
