// The options by which commands choose a trained model: --run or --hf, and what goes with them.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "cli/loaded_model.h"

namespace espalier {

struct ModelChoice {
  std::string run, checkpoint = "latest", hf, tokenizer;
  std::vector<std::string> set;  // overrides of the recipe, as --set gives them
};

// --run, --checkpoint, --hf, --tokenizer and --set. `choice` must outlive the parsing.
void add_model_options(CLI::App* command, ModelChoice& choice);

// The chosen model. `command` is the subcommand's name, for messages; `defaults` are overrides that
// --set may override in turn. Throws Error.
LoadedModel load_model(const ModelChoice& choice, const std::string& command,
                       const std::vector<std::string>& defaults = {});

}  // namespace espalier
