// Training steps of miniGPT on random tokens: compile time, step time, and what a step costs the
// host.
//
//   step_bench                           the standard cases, a line of JSON each
//   step_bench [OPTION...] KEY=VALUE...  one case: keys of a recipe over the tutorial's sizes
//     --steps N   steps to time (30)
//     --serve     for step_peer.py: see TrainingBench::serve
#include <fmt/format.h>

#include "benchmarks/training_bench.h"

namespace espalier::bench {
namespace {

const std::filesystem::path kRecipe =
    std::filesystem::path(ESPALIER_SOURCE_DIR) / "benchmarks" / "step_bench.toml";

void run_standard_cases() {
  const std::vector<std::string> tiny = {"model.vocab_size=65",       "model.maxlen=16",
                                         "model.embed_dim=16",        "model.num_heads=2",
                                         "model.feed_forward_dim=16", "data.seq_len=16"};
  std::vector<std::string> on_mesh = tiny;
  on_mesh.push_back("mesh.axes={batch=4,model=2}");
  const std::vector<std::string> small = {"model.vocab_size=65", "model.embed_dim=128",
                                          "model.feed_forward_dim=128",
                                          "model.num_transformer_blocks=4", "data.batch_size=32"};
  const auto show = [](const char* name, const std::vector<std::string>& keys, int64_t steps) {
    BenchOptions options;
    options.recipe = kRecipe;
    options.overrides = keys;
    nlohmann::json line = TrainingBench(options).report(steps);
    line["case"] = name;
    std::cout << line.dump() << std::endl;
  };
  show("tiny", tiny, 300);
  show("tiny_mesh", on_mesh, 100);
  show("small", small, 20);
}

}  // namespace
}  // namespace espalier::bench

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  try {
    if (arguments.empty()) {
      espalier::bench::run_standard_cases();
    } else {
      espalier::bench::run(espalier::bench::parse(arguments, espalier::bench::kRecipe));
    }
  } catch (const espalier::Error& error) {
    fmt::print(stderr, "step_bench: {}\n", error.what());
    return 1;
  }
}
