#include "cli/generate.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>

#include "cli/model_choice.h"
#include "cli/text_sampler.h"
#include "espalier/base/file.h"
#include "espalier/base/log.h"

namespace espalier {
namespace {

constexpr int64_t kMost = int64_t{1} << 30;
constexpr int64_t kBatch = 8;  // texts at a time where the command line does not say

struct Options {
  ModelChoice model;
  std::string plugin, prompt_file;
  std::optional<std::string> prompt;
  int64_t max_tokens = 0, num_samples = 1;
  std::optional<int64_t> top_k, batch_size;
  std::optional<double> temperature;
  double top_p = 1;
  uint64_t seed = 0;
  bool slide = false, stream = false;
};

LoadedModel load(const Options& o) {
  ModelChoice choice = o.model;
  std::vector<std::string> defaults;
  const bool on_mesh = std::any_of(choice.set.begin(), choice.set.end(),
                                   [](const std::string& set) { return set.starts_with("mesh."); });
  // A loop over layers would copy each one's weights for every token. On a mesh the recipe's
  // [sharding.params] may be meant for scanned layers.
  if (!on_mesh) defaults.emplace_back("model.layers=unroll");
  if (!o.plugin.empty()) choice.set.push_back("runtime.plugin=" + o.plugin);
  return load_model(choice, "generate", defaults);
}

std::string prompt_of(const Options& o, const RunConfig& config) {
  if (o.prompt) return *o.prompt;
  if (o.prompt_file.empty()) return config.sample.prompt;
  return read_file(o.prompt_file).value_or_throw();
}

// Batches of nearly equal sizes.
int64_t batch_of(const Options& o) {
  if (o.batch_size) return std::min(*o.batch_size, o.num_samples);
  const int64_t batches = (o.num_samples + kBatch - 1) / kBatch;
  return (o.num_samples + batches - 1) / batches;
}

void warn_of_lengths(const Options& o, int64_t prompt, int64_t longest) {
  if (o.max_tokens > longest && !o.slide) {
    err().warn(
        "--max-tokens {} is more than the {} tokens that the model takes, prompt included: the "
        "text ends there; --slide goes on",
        o.max_tokens, longest);
  }
  if (o.max_tokens > 0 && o.max_tokens <= prompt) {
    err().warn("nothing is added: --max-tokens {} counts the prompt, which has {} tokens",
               o.max_tokens, prompt);
  }
}

void report(const SampleTimes& times) {
  if (times.first_tokens == 0) return;
  std::string line =
      fmt::format("prompt: {} tokens in {:.3f} s", times.prompt_tokens, times.prefill_seconds);
  if (times.decode_tokens > 0) {
    line += fmt::format("; then {} tokens in {:.3f} s: {:.1f} tokens/s", times.decode_tokens,
                        times.decode_seconds,
                        static_cast<double>(times.decode_tokens) / times.decode_seconds);
  }
  err().info("{}", line);
}

void show(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

void run_generate(const Options& o) {
  if (o.stream && o.num_samples > 1) {
    throw Error("--stream shows one text while it is made; leave it out for --num-samples " +
                std::to_string(o.num_samples));
  }
  LoadedModel loaded = load(o);
  for (const std::string& warning : loaded.warnings) err().warn("{}", warning);
  SamplerOptions options;
  options.top_k = o.top_k.value_or(loaded.config.sample.top_k);
  options.top_p = o.top_p;
  options.batch = batch_of(o);
  options.dtype = loaded.dtype;
  TextSampler sampler(loaded.runtime, *loaded.model, loaded.layouts(), loaded.rules,
                      *loaded.tokenizer, options);
  TextRequest request;
  request.prompt = prompt_of(o, loaded.config);
  request.max_tokens = o.max_tokens;
  request.temperature = o.temperature.value_or(loaded.config.sample.temperature);
  request.seed = o.seed;
  request.samples = o.num_samples;
  request.slide = o.slide;
  warn_of_lengths(o, sampler.check(request).value_or_throw(), sampler.max_len());

  const bool stream = o.stream || (o.num_samples == 1 && ::isatty(STDOUT_FILENO) == 1);
  const auto texts =
      sampler(loaded.pointers(), request, stream ? show : TextSampler::OnText()).value_or_throw();
  if (stream) {
    show("\n");
  } else {
    for (size_t i = 0; i < texts.size(); ++i) out().info("{}{}", i > 0 ? "---\n" : "", texts[i]);
  }
  report(sampler.times());
}

void add_text_options(CLI::App* command, const std::shared_ptr<Options>& o) {
  CLI::Option* prompt = command->add_option(
      "--prompt", o->prompt,
      "Text to continue (default: the recipe's); \"\" begins with the end-of-text token.");
  command->add_option("--prompt-file", o->prompt_file, "File with the text to continue.")
      ->excludes(prompt);
  command
      ->add_option("--max-tokens", o->max_tokens,
                   "Length of the text in tokens, prompt included (default: all that the model "
                   "takes).")
      ->check(CLI::Range(int64_t{1}, kMost));
  command->add_flag("--slide", o->slide,
                    "Prompt and text may be longer than the model takes: it then sees the last "
                    "tokens, all of which are computed anew for each token, which is slower.");
}

void add_draw_options(CLI::App* command, const std::shared_ptr<Options>& o) {
  command
      ->add_option("--temperature", o->temperature,
                   "0: always the likeliest token (default: the recipe's).")
      ->check(CLI::NonNegativeNumber);
  command
      ->add_option("--top-k", o->top_k,
                   "Draw among the k likeliest tokens, all where there are fewer; 0: among all "
                   "(default: the recipe's).")
      ->check(CLI::Range(int64_t{0}, kMost));
  command->add_option("--top-p", o->top_p,
                      "Of these, draw among the likeliest that make up this probability; 1: all.");
  command->add_option("--seed", o->seed, "Of the draws; text i of several has seed + i.");
  command->add_option("--num-samples", o->num_samples, "Texts to write.")
      ->check(CLI::Range(int64_t{1}, kMost));
  command->add_option("--batch-size", o->batch_size, "Texts to make at a time (default: up to 8).")
      ->check(CLI::Range(int64_t{1}, kMost));
  command->add_flag("--stream", o->stream,
                    "Print a single text while it is made, as on a terminal.");
}

}  // namespace

void add_generate(CLI::App& app) {
  auto o = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("generate", "Continue a prompt with a trained model.");
  add_model_options(command, o->model);
  add_text_options(command, o);
  add_draw_options(command, o);
  command->add_option("--plugin", o->plugin, "PJRT plugin: cpu, cuda, tpu or a path.");
  command->callback([o] { run_generate(*o); });
}

}  // namespace espalier
