#include "cli/eval.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <numbers>

#include "cli/loaded_model.h"
#include "espalier/base/file.h"
#include "espalier/base/log.h"
#include "espalier/data/bins.h"
#include "espalier/train/text_loss.h"

namespace espalier {
namespace {

struct Options {
  std::string run, checkpoint = "latest", hf, tokenizer, data;
  std::vector<std::string> set;
  int64_t batch_size = 8;
};

LoadedModel load(const Options& o) {
  if (o.run.empty() == o.hf.empty()) throw Error("eval takes one of --run and --hf");
  if (!o.hf.empty()) return load_hf(o.hf, o.tokenizer, o.set).value_or_throw();
  if (!o.tokenizer.empty()) throw Error("--tokenizer goes with --hf: a run has its own");
  return load_run(o.run, o.checkpoint, o.set).value_or_throw();
}

// The validation tokens of a prepared folder, or the training tokens where it has no others.
std::vector<int32_t> tokens_of_bins(const std::string& path, const Tokenizer& tokenizer) {
  const TokenBins bins = open_bins(path, std::string(tokenizer.name())).value_or_throw();
  if (bins.tokenizer->serialize().value_or_throw() != tokenizer.serialize().value_or_throw()) {
    throw Error(
        fmt::format("the tokens in '{}' are those of the tokenizer {}, but the model has "
                    "{}; give it a text",
                    path, bins.tokenizer->name(), tokenizer.name()));
  }
  std::vector<int32_t> out;
  for (const TokenRun& run : bins.val.empty() ? bins.train : bins.val) {
    const size_t before = out.size();
    out.resize(before + static_cast<size_t>(run.count));
    run.copy(0, std::span(out).subspan(before));
  }
  return out;
}

std::vector<int32_t> tokens_of(const std::string& path, const Tokenizer& tokenizer) {
  if (std::filesystem::is_directory(path)) return tokens_of_bins(path, tokenizer);
  const std::string text = read_file(path).value_or_throw();
  try {
    return encode_parallel(tokenizer, text);
  } catch (const Error& error) {
    throw Error("'" + path + "': " + error.what(), error.code());
  }
}

// Bytes of the text that all tokens but the first stand for.
int64_t bytes_predicted(const std::vector<int32_t>& tokens, const Tokenizer& tokenizer) {
  constexpr size_t kPart = size_t{1} << 16;
  int64_t out = 0;
  for (size_t i = 1; i < tokens.size(); i += kPart) {
    const auto part = std::span(tokens).subspan(i, std::min(kPart, tokens.size() - i));
    out += static_cast<int64_t>(tokenizer.decode(part).value_or_throw().size());
  }
  return out;
}

void run_eval(const Options& o) {
  LoadedModel loaded = load(o);
  for (const std::string& warning : loaded.warnings) err().warn("{}", warning);
  const std::vector<int32_t> tokens = tokens_of(o.data, *loaded.tokenizer);
  const ModelOnMesh on{*loaded.model, loaded.rules, loaded.dtype};
  const auto loss = text_loss(loaded.runtime, on, loaded.pointers(), tokens, o.batch_size);
  if (!loss) throw Error("'" + o.data + "': " + loss.failure().message, loss.failure().code);
  const int64_t bytes = bytes_predicted(tokens, *loaded.tokenizer);
  const double mean = loss->nats / static_cast<double>(loss->tokens);
  out().info("data: {}", o.data);
  out().info("tokens: {} predicted, {} bytes, windows of {}", loss->tokens, bytes,
             std::min(loaded.model->max_len(), loss->tokens));
  out().info("loss: {:.9g} nats a token", mean);
  out().info("perplexity: {:.9g}", std::exp(mean));
  if (bytes > 0) {
    out().info("bits per byte: {:.9g}",
               loss->nats / std::numbers::ln2 / static_cast<double>(bytes));
  }
}

}  // namespace

void add_eval(CLI::App& app) {
  auto o = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("eval", "Loss, perplexity and bits per byte of a model on a text.");
  command->add_option("--run", o->run, "Folder of a run.");
  command->add_option("--checkpoint", o->checkpoint, "Of the run: latest, best or a step.");
  command->add_option("--hf", o->hf, "Hugging Face folder, or a published model's name.");
  command->add_option("--tokenizer", o->tokenizer,
                      "With --hf: a tokenizer's name or file (default: the folder's, or gpt2 where "
                      "the model has its number of ids).");
  command
      ->add_option("--data", o->data,
                   "Text, or a folder with train.bin and val.bin: then val.bin is read.")
      ->required();
  command->add_option("--batch-size", o->batch_size, "Windows to run at a time.")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20));
  command
      ->add_option("--set", o->set,
                   "Override a key of the recipe, such as mesh.axes (default: one device). May be "
                   "repeated.")
      ->allow_extra_args(false);
  command->callback([o] { run_eval(*o); });
}

}  // namespace espalier
