// Training steps of GPT-2 on random tokens: compile time, step time, and what a step costs the
// host.
//
//   gpt2_bench [OPTION...] KEY=VALUE...   a line of JSON; keys of a recipe
//     --recipe FILE     the recipe (recipes/shakespeare-char.toml)
//     --weights FOLDER  first parameters: model.safetensors with Hugging Face's names
//     --steps N         steps to time (30)
//     --serve           for gpt2_peer.py: see TrainingBench::serve
#include <fmt/format.h>

#include "benchmarks/training_bench.h"

int main(int argc, char** argv) {
  std::vector<std::string> arguments(argv + 1, argv + argc);
  // Without arguments, the recipe on a text of 65 characters.
  if (arguments.empty()) arguments = {"model.vocab_size=65"};
  const std::filesystem::path root = ESPALIER_SOURCE_DIR;
  try {
    espalier::bench::run(
        espalier::bench::parse(arguments, root / "recipes" / "shakespeare-char.toml"));
  } catch (const espalier::Error& error) {
    fmt::print(stderr, "gpt2_bench: {}\n", error.what());
    return 1;
  }
}
