#include "cli/generate.h"

#include <CLI/CLI.hpp>
#include <memory>

#include "cli/text_sampler.h"
#include "espalier/base/file.h"
#include "espalier/base/log.h"
#include "espalier/train/config.h"
#include "espalier/train/state.h"

namespace espalier {
namespace {

struct Options {
  std::string run, checkpoint = "latest", plugin;
  std::string prompt;
  int64_t max_tokens = 0, num_samples = 1;
  std::optional<int64_t> top_k;
  std::optional<double> temperature;
  uint64_t seed = 0;
};

void run_generate(const Options& o) {
  const std::filesystem::path run = o.run;
  // One device holds any model that this machine trained on several virtual ones.
  std::vector<std::string> overrides = {"mesh.axes={}"};
  if (!o.plugin.empty()) overrides.push_back("runtime.plugin=" + o.plugin);
  const RunConfig config = load_run_config(run / "config.toml", overrides).value_or_throw();
  const CheckpointReader reader =
      CheckpointReader::open(run / "checkpoints", o.checkpoint, {.quick = true}).value_or_throw();
  for (const std::string& warning : reader.warnings()) err().warn("{}", warning);
  const auto tokenizer =
      parse_tokenizer(read_file(run / "tokenizer.txt").value_or_throw()).value_or_throw();
  const auto model = make_model(config, tokenizer->vocab_size());

  RuntimeOptions options;
  options.plugin = config.runtime.plugin;
  if (config.runtime.cache) options.program_cache = default_program_cache();
  const auto runtime = Runtime::create(std::move(options)).value_or_throw();
  const ShardingRules rules = config.make_rules();
  std::vector<DeviceArray> params = load_params(runtime, *model, rules, reader).value_or_throw();
  std::vector<LayoutPtr> layouts;
  std::vector<DeviceArray*> pointers;
  for (DeviceArray& array : params) {
    layouts.push_back(array.layout());
    pointers.push_back(&array);
  }
  TextSampler sampler = make_text_sampler(runtime, *model, layouts, rules, *tokenizer,
                                          o.top_k.value_or(config.sample.top_k))
                            .value_or_throw();
  TextRequest request;
  request.prompt = o.prompt.empty() ? config.sample.prompt : o.prompt;
  request.max_tokens = o.max_tokens;
  request.temperature = o.temperature.value_or(config.sample.temperature);
  for (int64_t i = 0; i < o.num_samples; ++i) {
    request.seed = o.seed + static_cast<uint64_t>(i);
    const std::string text = sampler(pointers, request).value_or_throw();
    out().info("{}{}", i > 0 ? "---\n" : "", text);
  }
}

}  // namespace

void add_generate(CLI::App& app) {
  auto o = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("generate", "Continue a prompt with a trained model.");
  command->add_option("--run", o->run, "Folder of the run.")->required();
  command->add_option("--checkpoint", o->checkpoint, "latest, best or a step.");
  command->add_option("--prompt", o->prompt, "Text to continue (default: the recipe's).");
  command
      ->add_option("--max-tokens", o->max_tokens, "Length of the text in tokens, prompt included.")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 30));
  command->add_option("--temperature", o->temperature, "0: always the likeliest token.")
      ->check(CLI::NonNegativeNumber);
  command->add_option("--top-k", o->top_k, "Draw among the k likeliest tokens; 0: among all.")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 30));
  command->add_option("--seed", o->seed, "Of the draws.");
  command->add_option("--num-samples", o->num_samples, "Texts to write.")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 30));
  command->add_option("--plugin", o->plugin, "PJRT plugin: cpu, cuda, tpu or a path.");
  command->callback([o] { run_generate(*o); });
}

}  // namespace espalier
