#include "cli/train.h"

#include <CLI/CLI.hpp>
#include <memory>

#include "cli/text_sampler.h"
#include "espalier/base/log.h"
#include "espalier/train/progress.h"
#include "espalier/train/run_folder.h"
#include "espalier/train/trainer.h"

namespace espalier {
namespace {

struct Options {
  std::string recipe, run, plugin, compiled;
  std::optional<std::string> profile;
  std::vector<std::string> set;
  bool resume = false;
};

void run_train(const Options& options) {
  std::vector<std::string> overrides = options.set;
  if (!options.plugin.empty()) overrides.push_back("runtime.plugin=" + options.plugin);
  if (options.resume && options.run.empty()) {
    throw Error("--resume needs --run DIR, the folder of the run to continue");
  }
  TrainRequest request;
  request.config = load_run_config(options.recipe, overrides).value_or_throw();
  request.run = options.run.empty() ? RunFolder::default_path(options.recipe)
                                    : std::filesystem::path(options.run);
  request.resume = options.resume;
  request.compiled = options.compiled;
  if (options.profile) request.profile = parse_step_range(*options.profile).value_or_throw();
  request.make_sampler = make_training_sampler;
  const TrainSummary done = train(request).value_or_throw();
  const std::string where = request.run.string();
  const std::string fastest =
      done.fastest_step ? ", fastest step " + format_latency(*done.fastest_step) : "";
  if (done.signal != 0) {
    // The run's own config has every override in it.
    out().info(
        "stopped by a signal after step {}{}; its checkpoint is saved. Continue with\n"
        "  espalier train {} --run {} --resume",
        done.steps, fastest, (request.run / "config.toml").string(), where);
    return;
  }
  const std::string loss = done.loss ? fmt::format(", loss {:.4f}", *done.loss) : "";
  out().info("done: {} steps in {}{}{}; everything is in {}", done.steps,
             format_duration(done.seconds), loss, fastest, where);
}

}  // namespace

void add_train(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("train", "Train a model as a recipe says.");
  command->add_option("recipe", options->recipe, "The recipe, a TOML file.")->required();
  command
      ->add_option("--set", options->set,
                   "Override a key of the recipe: --set train.steps=100. May be repeated.")
      ->allow_extra_args(false);
  command->add_option("--run", options->run, "Folder of the run (default: runs/RECIPE-DATE-TIME).");
  command->add_flag("--resume", options->resume, "Continue the run in --run.");
  command->add_option("--plugin", options->plugin, "PJRT plugin: cpu, cuda, tpu or a path.");
  command->add_option("--compiled", options->compiled,
                      "The step as espalier compile --save kept it, loaded instead of compiled.");
  command->add_option("--profile", options->profile,
                      "START:STOP: record these steps, counted from 1, STOP included, below "
                      "RUN/plugins/profile: by the plugin's profiler, where it has one, for "
                      "TensorBoard, and in espalier.trace.json for Perfetto.");
  command->callback([options] { run_train(*options); });
}

}  // namespace espalier
