#include "cli/model_choice.h"

namespace espalier {

void add_model_options(CLI::App* command, ModelChoice& choice) {
  command->add_option("--run", choice.run, "Folder of a run.");
  command->add_option("--checkpoint", choice.checkpoint, "Of the run: latest, best or a step.");
  command->add_option("--hf", choice.hf, "Hugging Face folder, or a published model's name.");
  command->add_option("--tokenizer", choice.tokenizer,
                      "With --hf: a tokenizer's name or file (default: the folder's, or gpt2 where "
                      "the model has its number of ids).");
  command
      ->add_option("--set", choice.set,
                   "Override a key of the recipe, such as mesh.axes (default: one device). May be "
                   "repeated.")
      ->allow_extra_args(false);
}

LoadedModel load_model(const ModelChoice& choice, const std::string& command,
                       const std::vector<std::string>& defaults) {
  std::vector<std::string> overrides = defaults;
  overrides.insert(overrides.end(), choice.set.begin(), choice.set.end());
  if (choice.run.empty() == choice.hf.empty()) {
    throw Error(command + " takes one of --run and --hf");
  }
  if (!choice.hf.empty()) {
    return load_hf(choice.hf, choice.tokenizer, overrides).value_or_throw();
  }
  if (!choice.tokenizer.empty()) throw Error("--tokenizer goes with --hf: a run has its own");
  return load_run(choice.run, choice.checkpoint, overrides).value_or_throw();
}

}  // namespace espalier
