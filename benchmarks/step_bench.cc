// Training steps of miniGPT on random tokens: compile time, step time, and what a step costs the
// host.
//
//   step_bench                           the standard cases, a line of JSON each
//   step_bench [OPTION...] KEY=VALUE...  one case: keys of a recipe over the tutorial's sizes
//     --steps N   steps to time (30)
//     --serve     for step_peer.py: prints the compile times, then reads numbers, runs that many
//                 steps for each and prints their seconds, until the end of input
//
// Host time is what Loader::next() and TrainStep::run() take until they return, without the
// plugin's execute call, which on CPU runs small programs to their end before it returns.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

#include "espalier/data/loader.h"
#include "espalier/train/config.h"
#include "espalier/train/step.h"

namespace espalier {
namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<int64_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

class RandomRows final : public RowSource {
 public:
  RandomRows(int64_t seq_len, int64_t vocab) : seq_len_(seq_len), vocab_(vocab) {}
  int64_t rows() const override { return 1 << 16; }
  int64_t seq_len() const override { return seq_len_; }
  Status fill(int64_t row, std::span<int32_t> tokens, std::span<int32_t> targets) const override {
    uint64_t state = static_cast<uint64_t>(row) + 1;
    for (size_t i = 0; i < tokens.size(); ++i) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      tokens[i] = static_cast<int32_t>((state >> 33) % static_cast<uint64_t>(vocab_));
      if (i > 0) targets[i - 1] = tokens[i];
    }
    targets.back() = 0;
    return {};
  }

 private:
  int64_t seq_len_, vocab_;
};

// Removed with everything in it.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "step_bench.XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw Error("cannot make a temporary folder");
    path_ = name;
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

struct StepTimes {
  std::vector<double> step, host, execute;  // seconds
  double loss = 0;
};

class Bench {
 public:
  explicit Bench(const std::vector<std::string>& overrides)
      : config_(load_run_config(
                    std::filesystem::path(ESPALIER_SOURCE_DIR) / "benchmarks" / "step_bench.toml",
                    overrides)
                    .value_or_throw()),
        mesh_(config_.make_mesh()),
        rules_(config_.make_rules()),
        model_(make_model(config_, config_.minigpt.vocab_size)),
        optimizer_(make_optimizer(config_.optimizer).value_or_throw()),
        layout_(*model_, optimizer_, rules_, mesh_) {
    const TemporaryFolder cache;
    RuntimeOptions options;
    options.plugin = config_.runtime.plugin;
    options.mesh = mesh_;
    options.devices = config_.runtime.devices;
    options.program_cache = cache.path();
    runtime_ = Runtime::create(options).value_or_throw();
    cold_ = build();
    warm_ = build();
    state_ = make_state(runtime_, *model_, layout_, config_.train.seed).value_or_throw();
    loader_ = Loader::start(
                  std::make_shared<RandomRows>(config_.data.seq_len, config_.minigpt.vocab_size),
                  {.batch_size = config_.data.batch_size * config_.train.accumulate})
                  .value_or_throw();
  }

  // One step at a time: each is waited for, as a peer's are.
  StepTimes run(int64_t steps) {
    StepTimes times;
    for (int64_t i = 0; i < steps; ++i) {
      const double start = now();
      const Batch batch = loader_->next().value_or_throw();
      const DeviceArray report = step_->run(state_, batch).value_or_throw();
      const double returned = now();
      times.loss = read_report(report).value_or_throw().loss;
      times.step.push_back(now() - start);
      times.execute.push_back(step_->program().execute_seconds());
      times.host.push_back(returned - start - times.execute.back());
    }
    return times;
  }

  nlohmann::json compile_report() const {
    return {{"cold_compile_s", cold_}, {"warm_compile_s", warm_}};
  }

  nlohmann::json report(int64_t steps) {
    run(3);
    const StepTimes times = run(steps);
    nlohmann::json out = compile_report();
    const double step = median(times.step);
    out["mesh"] = mesh_.to_string();
    out["parameters"] = num_parameters(model_->params());
    out["arrays"] = layout_.size();
    out["step_s"] = step;
    out["min_step_s"] = *std::min_element(times.step.begin(), times.step.end());
    out["host_us"] = median(times.host) * 1e6;
    out["execute_call_us"] = median(times.execute) * 1e6;
    out["tokens_per_s"] = static_cast<double>(config_.data.batch_size * config_.train.accumulate *
                                              config_.data.seq_len) /
                          step;
    return out;
  }

 private:
  // Seconds until the step is ready to run: traced, printed, compiled or loaded.
  double build() {
    const double start = now();
    StepOptions options;
    options.batch_size = config_.data.batch_size;
    options.seq_len = config_.data.seq_len;
    options.accumulate = config_.train.accumulate;
    options.seed = config_.train.seed;
    step_ = std::make_unique<TrainStep>(
        TrainStep::create(runtime_, *model_, optimizer_, layout_, rules_, options)
            .value_or_throw());
    return now() - start;
  }

  RunConfig config_;
  Mesh mesh_;
  ShardingRules rules_;
  std::unique_ptr<LanguageModel> model_;
  Optimizer optimizer_;
  StateLayout layout_;
  std::shared_ptr<Runtime> runtime_;
  std::unique_ptr<TrainStep> step_;
  double cold_ = 0, warm_ = 0;
  TrainState state_;
  std::unique_ptr<Loader> loader_;
};

void serve(Bench& bench) {
  std::cout << bench.compile_report().dump() << std::endl;
  int64_t steps = 0;
  while (std::cin >> steps) {
    const StepTimes times = bench.run(steps);
    std::cout << nlohmann::json{{"steps_s", times.step}, {"loss", times.loss}}.dump() << std::endl;
  }
}

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
    nlohmann::json line = Bench(keys).report(steps);
    line["case"] = name;
    std::cout << line.dump() << std::endl;
  };
  show("tiny", tiny, 300);
  show("tiny_mesh", on_mesh, 100);
  show("small", small, 20);
}

int run(const std::vector<std::string>& arguments) {
  if (arguments.empty()) {
    run_standard_cases();
    return 0;
  }
  int64_t steps = 30;
  bool serving = false;
  std::vector<std::string> overrides;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const bool last = i + 1 == arguments.size();
    if (arguments[i] == "--serve") {
      serving = true;
    } else if (arguments[i] == "--steps" && !last) {
      steps = std::max(1, std::atoi(arguments[++i].c_str()));
    } else {
      overrides.push_back(arguments[i]);
    }
  }
  Bench bench(overrides);
  if (serving) {
    serve(bench);
  } else {
    std::cout << bench.report(steps).dump() << std::endl;
  }
  return 0;
}

}  // namespace
}  // namespace espalier

int main(int argc, char** argv) {
  try {
    return espalier::run({argv + 1, argv + argc});
  } catch (const espalier::Error& error) {
    fmt::print(stderr, "step_bench: {}\n", error.what());
    return 1;
  }
}
