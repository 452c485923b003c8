#include "cli/plan.h"

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/compile_target.h"
#include "espalier/base/child_process.h"
#include "espalier/base/file.h"
#include "espalier/base/log.h"
#include "espalier/pjrt/client.h"
#include "espalier/train/machines.h"
#include "espalier/train/plan.h"

namespace espalier {
namespace {

struct Options {
  std::string recipe, topology, plugin, json;
  std::vector<std::string> set;
  size_t check = 0, limit = 12;
  bool as_is = false;
};

// The recipe's own plugin: on CPU as many devices as its mesh has, elsewhere those that are there.
PlanTarget local_target(const RunConfig& config) {
  PlanTarget out;
  out.text = "local";
  out.devices = config.runtime.devices > 0 ? config.runtime.devices : config.make_mesh().size();
  if (config.runtime.plugin == "cpu") {
    out.platform = out.device_kind = "cpu";
    return out;
  }
  // A client's threads must not be there when the compiler's process is made.
  const std::string reply = run_in_child("the plugin", [&]() -> Result<std::string> {
                              ESPALIER_ASSIGN(auto plugin, Plugin::load(config.runtime.plugin));
                              ESPALIER_ASSIGN(const auto client, Client::create(plugin, {}));
                              const auto& devices = client->devices();
                              return nlohmann::json{{"platform", client->platform_name()},
                                                    {"kind", devices.front().kind()},
                                                    {"devices", devices.size()}}
                                  .dump();
                            }).value_or_throw();
  const auto json = nlohmann::json::parse(reply);
  out.platform = json["platform"];
  out.device_kind = json["kind"];
  if (out.platform != "cpu") out.devices = json["devices"];
  out.machine = find_machine(out.device_kind);
  return out;
}

CheckedStep check(const RunConfig& config, const PlannedStep& step,
                  const std::optional<NamedTopology>& topology) {
  const auto compiled = run_in_child("the compiler", [&]() -> Result<std::string> {
    ESPALIER_ASSIGN(const RunSetup setup, set_up_step(planned_config(config, step)));
    ESPALIER_ASSIGN(const CompiledStep made, compile_step(setup, topology, {}));
    return nlohmann::json(made).dump();
  });
  if (!compiled) return {{}, compiled.failure().message};
  return {nlohmann::json::parse(*compiled).get<CompiledStep>(), ""};
}

void run_plan(const Options& options) {
  const CompileTarget asked =
      compile_target(options.recipe, options.set, options.topology, options.plugin);
  const RunConfig& config = asked.config;
  const std::optional<NamedTopology>& topology = asked.topology;
  const PlanTarget target =
      topology ? plan_target(*topology).value_or_throw() : local_target(config);
  if (options.check > 0) asked.require_plugin();
  const bool quiet = options.json == "-";
  const Plan plan = make_plan(config, target, options.as_is).value_or_throw();
  if (plan.steps.empty()) throw Error(nothing_fits(plan), Code::kResourceExhausted);
  std::vector<CheckedStep> checked;
  for (size_t i = 0; i < std::min(options.check, plan.steps.size()); ++i) {
    if (!quiet) {
      out().info("compiling {} of {} for {} ...", i + 1, options.check, target.text);
      out().flush();
    }
    checked.push_back(check(config, plan.steps[i], topology));
  }
  if (!quiet) out().info("{}", to_text(plan, checked, options.limit));
  if (quiet) {
    out().info("{}", to_json(plan, checked).dump(2));
  } else if (!options.json.empty()) {
    write_file(options.json, to_json(plan, checked).dump(2) + "\n").value_or_throw();
  }
}

}  // namespace

void add_plan(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "plan",
      "List the meshes, rematerializations and microbatches of a recipe that fit a machine, by "
      "predicted time of a step.");
  command->add_option("recipe", options->recipe, "The recipe, a TOML file.")->required();
  command
      ->add_option("--set", options->set,
                   "Override a key of the recipe: --set data.seq_len=2048. May be repeated.")
      ->allow_extra_args(false);
  command->add_option("--topology", options->topology,
                      "v4:2x2x2, v5e:16x16, v5p:4x4x4, v6e:2x4, a100:8, h100:8, h200:8, ... "
                      "(default: local, the recipe's own plugin).");
  command->add_option("--plugin", options->plugin, "PJRT plugin: cpu, cuda, tpu or a path.");
  command->add_flag("--as-is", options->as_is,
                    "Only the recipe's own mesh, rematerialization and batch.");
  command->add_option("--check", options->check,
                      "Compile the best N, and tell how far the prediction was off.");
  command->add_option("--limit", options->limit, "List at most N (default 12).")
      ->check(CLI::Range(size_t{1}, size_t{1} << 30));
  command->add_option("--json", options->json,
                      "Write the plan to this file; -: to standard output, and nothing else.");
  command->callback([options] { run_plan(*options); });
}

}  // namespace espalier
