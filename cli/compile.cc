#include "cli/compile.h"

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/compile_target.h"
#include "espalier/base/child_process.h"
#include "espalier/base/file.h"
#include "espalier/base/log.h"
#include "espalier/train/compile_step.h"

namespace espalier {
namespace {

struct Options {
  std::string recipe, topology, plugin, save, json;
  std::vector<std::string> set;
};

void run_compile(const Options& options) {
  const CompileTarget target =
      compile_target(options.recipe, options.set, options.topology, options.plugin);
  target.require_plugin();
  const std::optional<NamedTopology>& topology = target.topology;
  const RunSetup setup = set_up_step(target.config).value_or_throw();
  if (options.json != "-") {
    out().info("compiling for {} ...", topology ? topology->text : "the local devices");
    out().flush();
  }
  const std::string reply =
      run_in_child("the compiler", [&]() -> Result<std::string> {
        ESPALIER_ASSIGN(const CompiledStep step, compile_step(setup, topology, options.save));
        return nlohmann::json(step).dump();
      }).value_or_throw();
  const auto json = nlohmann::json::parse(reply);
  if (options.json == "-") {
    out().info("{}", json.dump(2));
  } else {
    out().info("{}", to_text(json.get<CompiledStep>()));
    if (!options.json.empty()) write_file(options.json, json.dump(2) + "\n").value_or_throw();
    if (!options.save.empty()) {
      out().info("kept in {}; espalier train {} --compiled {} loads it", options.save,
                 options.recipe, options.save);
    }
  }
}

}  // namespace

void add_compile(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "compile",
      "Compile a recipe's training step, for devices here or not, and tell what it needs.");
  command->add_option("recipe", options->recipe, "The recipe, a TOML file.")->required();
  command
      ->add_option("--set", options->set,
                   "Override a key of the recipe: --set mesh.axes={fsdp=8}. May be repeated.")
      ->allow_extra_args(false);
  command->add_option("--topology", options->topology,
                      "v4:2x2x2, v5e:16x16, v5p:4x4x4, v6e:2x4, a100:8, h100:8, h200:8, ... "
                      "(default: local, the recipe's own plugin).");
  command->add_option("--plugin", options->plugin, "PJRT plugin: cpu, cuda, tpu or a path.");
  command->add_option("--save", options->save,
                      "Keep the compiled step in this file, for train --compiled.");
  command->add_option("--json", options->json,
                      "Write the numbers to this file; -: to standard output, and nothing else.");
  command->callback([options] { run_compile(*options); });
}

}  // namespace espalier
