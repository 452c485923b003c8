#include "cli/eval.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <numbers>
#include <optional>

#include "cli/model_choice.h"
#include "espalier/base/file.h"
#include "espalier/base/log.h"
#include "espalier/data/bins.h"
#include "espalier/train/text_loss.h"

namespace espalier {
namespace {

struct Options {
  ModelChoice model;
  std::string data;
  std::optional<int64_t> seq_len;
  int64_t batch_size = 8;
};

struct EvalTokens {
  std::vector<int32_t> ids;
  std::string split;  // of a prepared folder: "validation" or "training"
};

// The validation tokens of a prepared folder, or the training tokens where it has no others.
EvalTokens tokens_of_bins(const std::string& path, const Tokenizer& tokenizer) {
  const TokenBins bins = open_bins(path, std::string(tokenizer.name())).value_or_throw();
  if (bins.tokenizer->serialize().value_or_throw() != tokenizer.serialize().value_or_throw()) {
    throw Error(
        fmt::format("the tokens in '{}' are those of the tokenizer {}, but the model has "
                    "{}; give it a text",
                    path, bins.tokenizer->name(), tokenizer.name()));
  }
  const bool held = std::any_of(bins.val.begin(), bins.val.end(),
                                [](const TokenRun& run) { return run.count > 0; });
  EvalTokens out{{}, held ? "validation" : "training"};
  for (const TokenRun& run : held ? bins.val : bins.train) {
    const size_t before = out.ids.size();
    out.ids.resize(before + static_cast<size_t>(run.count));
    run.copy(0, std::span(out.ids).subspan(before));
  }
  return out;
}

EvalTokens tokens_of(const std::string& path, const Tokenizer& tokenizer) {
  if (std::filesystem::is_directory(path)) return tokens_of_bins(path, tokenizer);
  const std::string text = read_file(path).value_or_throw();
  try {
    return {encode_parallel(tokenizer, text), ""};
  } catch (const Error& error) {
    throw Error("'" + path + "': " + error.what(), error.code());
  }
}

// Bytes of the text that all tokens but the first stand for. An end-of-text token stands for none:
// it is no part of a document, whether `prepare` put it behind one or the text has the separator.
int64_t bytes_predicted(const std::vector<int32_t>& tokens, const Tokenizer& tokenizer) {
  constexpr size_t kPart = size_t{1} << 16;
  const std::optional<int32_t> end_of_text = tokenizer.end_of_text();
  int64_t out = 0;
  std::vector<int32_t> part;
  for (size_t i = 1; i < tokens.size(); i += kPart) {
    const auto from = std::span(tokens).subspan(i, std::min(kPart, tokens.size() - i));
    part.assign(from.begin(), from.end());
    if (end_of_text) std::erase(part, *end_of_text);
    out += static_cast<int64_t>(tokenizer.decode(part).value_or_throw().size());
  }
  return out;
}

// Tokens of a window: what the run was trained on, unless the command line says.
int64_t window_of(const Options& o, const LoadedModel& loaded) {
  const int64_t longest = loaded.model->max_len();
  if (!o.seq_len) {
    return o.model.run.empty() ? longest : std::min(longest, loaded.config.data.seq_len);
  }
  if (*o.seq_len > longest) {
    throw Error(fmt::format("--seq-len {} is more than the {} tokens that the model takes",
                            *o.seq_len, longest));
  }
  return *o.seq_len;
}

void run_eval(const Options& o) {
  LoadedModel loaded = load_model(o.model, "eval");
  for (const std::string& warning : loaded.warnings) err().warn("{}", warning);
  const int64_t window = window_of(o, loaded);
  const EvalTokens tokens = tokens_of(o.data, *loaded.tokenizer);
  if (tokens.split == "training") {
    err().warn("'{}' has no validation tokens: the training tokens are evaluated", o.data);
  }
  const ModelOnMesh on{*loaded.model, loaded.rules, loaded.dtype};
  const auto loss =
      text_loss(loaded.runtime, on, loaded.pointers(), tokens.ids, window, o.batch_size);
  if (!loss) throw Error("'" + o.data + "': " + loss.failure().message, loss.failure().code);
  const int64_t bytes = bytes_predicted(tokens.ids, *loaded.tokenizer);
  const double mean = loss->nats / static_cast<double>(loss->tokens);
  out().info("data: {}", o.data);
  if (!tokens.split.empty()) out().info("split: {}", tokens.split);
  out().info("tokens: {} predicted, {} bytes{}, windows of {}", loss->tokens, bytes,
             loaded.tokenizer->end_of_text() ? " (end-of-text tokens stand for none)" : "",
             std::min(window, loss->tokens));
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
      app.add_subcommand("eval",
                         "Loss, perplexity and bits per byte of a model on a text. End-of-text "
                         "tokens are predicted like others and stand for 0 bytes.");
  add_model_options(command, o->model);
  command
      ->add_option("--data", o->data,
                   "Text, or a folder with train.bin and val.bin: then val.bin is read.")
      ->required();
  command->add_option("--batch-size", o->batch_size, "Windows to run at a time.")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20));
  command
      ->add_option("--seq-len", o->seq_len,
                   "Tokens of a window (default: of a run what it was trained on, otherwise all "
                   "that the model takes).")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 30));
  command->callback([o] { run_eval(*o); });
}

}  // namespace espalier
