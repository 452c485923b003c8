// Training steps of Llama 3 on random tokens: compile time, step time, and what a step costs the
// host.
//
//   llama_bench [OPTION...] KEY=VALUE...   a line of JSON; keys of a recipe
//     --recipe FILE     the recipe (recipes/llama3-debug.toml)
//     --weights FOLDER  first parameters: model.safetensors with Hugging Face's names
//     --steps N         steps to time (30)
//     --serve           for llama_peer.py: see TrainingBench::serve
#include <fmt/format.h>

#include "benchmarks/training_bench.h"

int main(int argc, char** argv) {
  std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.empty()) arguments = {"model.vocab_size=512"};
  const std::filesystem::path root = ESPALIER_SOURCE_DIR;
  try {
    espalier::bench::run(espalier::bench::parse(arguments, root / "recipes" / "llama3-debug.toml"));
  } catch (const espalier::Error& error) {
    fmt::print(stderr, "llama_bench: {}\n", error.what());
    return 1;
  }
}
