#include "espalier/train/setup.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "espalier/base/file.h"
#include "espalier/base/log.h"
#include "espalier/train/pretrained.h"
#include "espalier/train/run_position.h"

namespace espalier {
namespace {

namespace fs = std::filesystem;

bool is_run(const fs::path& folder) { return fs::exists(folder / "checkpoints"); }

constexpr int64_t kVocabPadding = 128;

// The folder that train.init_from names; empty for none.
Result<fs::path> weights_folder(const TrainConfig& train) {
  if (train.init_from == "scratch" || train.init_from == "resume") return fs::path();
  return pretrained_folder(train.init_from, train.weights_dir);
}

// Pretrained weights decide the model's sizes; what else the recipe says of it stays.
Status take_over_sizes(RunConfig& config, const fs::path& weights) {
  ESPALIER_ASSIGN(const fs::path description, model_description(weights));
  ESPALIER_ASSIGN(const std::string text, read_file(description));
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  ESPALIER_ASSIGN(const std::unique_ptr<ModelConfig> published, model_config_from_hf(json));
  if (published->name() != config.model->name()) {
    return Failure{Code::kInvalidArgument,
                   fmt::format("train.init_from: the weights in '{}' are of a {}, but model.name "
                               "is \"{}\"",
                               weights.string(), published->name(), config.model->name())};
  }
  std::shared_ptr<ModelConfig> model = config.model->clone();
  ESPALIER_TRY(model->read_hf(json));
  if (config.data.seq_len > model->max_len()) {
    return Failure{Code::kInvalidArgument,
                   fmt::format("data.seq_len = {} is longer than the {} positions of the weights "
                               "in '{}'; shorten the rows",
                               config.data.seq_len, model->max_len(), weights.string())};
  }
  config.model = std::move(model);
  return {};
}

// Whether another run's parameters mean here what they mean there.
Status check_same_run(const RunSetup& setup, const fs::path& run) {
  const fs::path recipe = run / "config.toml", tokenizer = run / "tokenizer.txt";
  ESPALIER_ASSIGN(const std::string text, read_file(recipe));
  ESPALIER_TRY(check_same_model(text, recipe.string(), setup.config));
  ESPALIER_ASSIGN(const std::string theirs, read_file(tokenizer));
  ESPALIER_ASSIGN(const std::string ours, setup.tokenizer->serialize());
  if (theirs == ours) return {};
  return Failure{Code::kInvalidArgument,
                 fmt::format("train.init_from: the run in '{}' was trained with other tokens ({}) "
                             "than the data has; its ids would mean other texts. Prepare the data "
                             "with that run's tokenizer",
                             run.string(), tokenizer.string())};
}

Status set_schedule(RunSetup& setup) {
  RunConfig& config = setup.config;
  setup.steps = config.train.steps;
  if (setup.steps == 0 && setup.dataset != nullptr) {
    setup.steps = setup.dataset->train()->rows() / setup.loader.batch_size * config.train.epochs;
  }
  if (config.optimizer.schedule != "constant" && config.optimizer.decay_steps == 0) {
    config.optimizer.decay_steps = setup.steps;
  }
  ESPALIER_ASSIGN(Optimizer optimizer, make_optimizer(config.optimizer));
  setup.optimizer = std::make_unique<Optimizer>(std::move(optimizer));
  return {};
}

// Mesh, rules and the state's layout of a setup that has its model and optimizer.
void lay_out(RunSetup& setup) {
  setup.mesh = setup.config.make_mesh();
  setup.rules = setup.config.make_rules();
  for (const std::string& axis : setup.rules.unused_axes(setup.mesh)) {
    err().warn(
        "no sharding rule names mesh axis '{}': devices along it do the same work twice; "
        "name it in [sharding.rules], for instance batch = \"{}\"",
        axis, axis);
  }
  std::vector<std::string> params;
  for (const ParamSpec& spec : setup.model->params()) params.push_back(spec.name);
  if (const auto left = setup.rules.left_to_rules(params); !left.empty()) {
    err().warn("no pattern of [sharding.params] matches {}; [sharding.rules] split them",
               fmt::join(left, ", "));
  }
  setup.layout = std::make_unique<StateLayout>(setup.model->params(), *setup.optimizer, setup.rules,
                                               setup.mesh);
}

// What of the step only the data tells; empty: nothing.
std::string asked_of_data(const RunConfig& config) {
  if (config.model->vocab_size() == 0) return "model.vocab_size";
  const bool scheduled =
      config.optimizer.schedule != "constant" && config.optimizer.decay_steps == 0;
  return config.train.steps == 0 && scheduled ? "train.steps" : "";
}

}  // namespace

Result<RunSetup> set_up(const RunConfig& given, bool fresh) {
  RunSetup setup;
  setup.config = given;
  RunConfig& config = setup.config;
  if (fresh) {
    ESPALIER_ASSIGN(setup.weights, weights_folder(config.train));
  }
  if (!setup.weights.empty() && !is_run(setup.weights)) {
    ESPALIER_TRY(take_over_sizes(config, setup.weights));
  }
  ESPALIER_ASSIGN(setup.dataset, open_dataset(config.data, config.model->vocab_size()));
  setup.tokenizer = setup.dataset->tokenizer();
  if (!setup.weights.empty() && is_run(setup.weights)) {
    ESPALIER_TRY(check_same_run(setup, setup.weights));
  }
  setup.model = config.make_model(setup.tokenizer->vocab_size());
  ESPALIER_TRY(setup.dataset->check_vocab(setup.model->vocab_size()));
  // Weights of another vocabulary would train too, each id meaning what it did not. Published ones
  // may be padded up to a multiple of 128.
  if (!setup.weights.empty() &&
      setup.model->vocab_size() - setup.tokenizer->vocab_size() >= kVocabPadding) {
    err().warn(
        "train.init_from: the weights in '{}' are of {} token ids, the data's tokenizer has {}; "
        "where they are not the same tokens, prepare the data with the weights' tokenizer",
        setup.weights.string(), setup.model->vocab_size(), setup.tokenizer->vocab_size());
  }
  setup.loader.batch_size = config.data.batch_size * config.train.accumulate;
  setup.loader.shuffle = config.data.shuffle;
  // Started once to check it; the run's own starts where the run is.
  ESPALIER_ASSIGN(const auto trial, Loader::start(setup.dataset->train(), setup.loader));
  ESPALIER_TRY(set_schedule(setup));
  lay_out(setup);
  ESPALIER_ASSIGN(setup.runtime, Runtime::create(config.runtime_options()));
  return setup;
}

Result<RunSetup> set_up_step(const RunConfig& given) {
  RunSetup setup;
  setup.config = given;
  RunConfig& config = setup.config;
  ESPALIER_ASSIGN(setup.weights, weights_folder(config.train));
  if (!setup.weights.empty() && !is_run(setup.weights)) {
    ESPALIER_TRY(take_over_sizes(config, setup.weights));
  }
  setup.loader.batch_size = config.data.batch_size * config.train.accumulate;
  if (const std::string key = asked_of_data(config); !key.empty()) {
    auto dataset = open_dataset(config.data, config.model->vocab_size());
    if (!dataset) {
      return Failure{dataset.failure().code,
                     fmt::format("the recipe leaves {} to the data, which cannot be read: {}; or "
                                 "give it: --set {}=NUMBER",
                                 key, dataset.failure().message, key)};
    }
    setup.dataset = std::move(*dataset);
    setup.tokenizer = setup.dataset->tokenizer();
  }
  setup.model = config.make_model(setup.tokenizer ? setup.tokenizer->vocab_size() : 0);
  ESPALIER_TRY(set_schedule(setup));
  lay_out(setup);
  return setup;
}

StepOptions step_options(const RunConfig& config) {
  StepOptions options;
  options.batch_size = config.data.batch_size;
  options.seq_len = config.data.seq_len;
  options.accumulate = config.train.accumulate;
  options.seed = config.train.seed;
  options.z_loss = config.train.z_loss;
  options.ignore_id = config.train.ignore_id;
  options.skip_nonfinite = config.train.nonfinite == "skip";
  return options;
}

Result<TrainState> first_state(const RunSetup& setup) {
  const ParamSpecs& specs = setup.model->params();
  ESPALIER_ASSIGN(TrainState state,
                  make_state(setup.runtime, specs, *setup.layout, setup.config.train.seed));
  if (setup.weights.empty()) return state;
  std::vector<DeviceArray> params;
  if (is_run(setup.weights)) {
    ESPALIER_ASSIGN(const CheckpointReader reader,
                    CheckpointReader::open(setup.weights / "checkpoints", "latest"));
    for (const std::string& warning : reader.warnings()) err().warn("{}", warning);
    ESPALIER_ASSIGN(params, load_params(setup.runtime, specs, setup.rules, reader));
  } else {
    ESPALIER_ASSIGN(params, load_pretrained(setup.runtime, *setup.config.model, specs, setup.rules,
                                            setup.weights));
  }
  std::move(params.begin(), params.end(), state.begin());
  return state;
}

}  // namespace espalier
