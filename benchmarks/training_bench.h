// What the benchmarks of training steps share: a model trained on random tokens, its compile time,
// step time, and what a step costs the host.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "espalier/checkpoint/weights_folder.h"
#include "espalier/data/loader.h"
#include "espalier/train/config.h"
#include "espalier/train/step.h"

namespace espalier::bench {

inline double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

inline double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<int64_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Row r: x(0) = r + 1, x(i + 1) = 6364136223846793005 x(i) + 1442695040888963407 modulo 2^64; token
// i is floor(x(i + 1) / 2^33) modulo the vocabulary. A peer makes the same ones.
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
  std::vector<double> loss;
};

struct BenchOptions {
  std::filesystem::path recipe;
  std::vector<std::string> overrides;              // KEY=VALUE of the recipe
  std::optional<std::filesystem::path> weights{};  // a folder of first parameters
  int64_t steps = 30;
  bool serve = false;
};

// Of a program's arguments over the given recipe:
//   [--recipe FILE] [--weights FOLDER] [--steps N] [--serve] KEY=VALUE...
inline BenchOptions parse(const std::vector<std::string>& arguments, std::filesystem::path recipe) {
  BenchOptions out;
  out.recipe = std::move(recipe);
  for (size_t i = 0; i < arguments.size(); ++i) {
    const bool last = i + 1 == arguments.size();
    if (arguments[i] == "--serve") {
      out.serve = true;
    } else if (arguments[i] == "--recipe" && !last) {
      out.recipe = arguments[++i];
    } else if (arguments[i] == "--weights" && !last) {
      out.weights = arguments[++i];
    } else if (arguments[i] == "--steps" && !last) {
      out.steps = std::max(1, std::atoi(arguments[++i].c_str()));
    } else {
      out.overrides.push_back(arguments[i]);
    }
  }
  return out;
}

// Host time is what Loader::next() and TrainStep::run() take until they return, without the
// plugin's execute call, which on CPU runs small programs to their end before it returns.
class TrainingBench {
 public:
  explicit TrainingBench(const BenchOptions& options)
      : config_(load_run_config(options.recipe, options.overrides).value_or_throw()),
        mesh_(config_.make_mesh()),
        rules_(config_.make_rules()),
        model_(config_.make_model(config_.model->vocab_size())),
        optimizer_(make_optimizer(config_.optimizer).value_or_throw()),
        layout_(model_->params(), optimizer_, rules_, mesh_) {
    const TemporaryFolder cache;
    RuntimeOptions runtime = config_.runtime_options();
    runtime.program_cache = cache.path();
    runtime_ = Runtime::create(runtime).value_or_throw();
    cold_ = build();
    warm_ = build();
    state_ = make_state(runtime_, model_->params(), layout_, config_.train.seed).value_or_throw();
    if (options.weights) {
      const WeightsFolder folder = WeightsFolder::open(*options.weights).value_or_throw();
      std::vector<DeviceArray> params =
          load_params(runtime_, model_->params(), rules_, folder).value_or_throw();
      std::move(params.begin(), params.end(), state_.begin());
    }
    loader_ =
        Loader::start(
            std::make_shared<RandomRows>(config_.data.seq_len, model_->vocab_size()),
            {.batch_size = config_.data.batch_size * config_.train.accumulate, .shuffle = false})
            .value_or_throw();
  }

  // One step at a time: each is waited for, as a peer's are.
  StepTimes run(int64_t steps) {
    StepTimes times;
    for (int64_t i = 0; i < steps; ++i) {
      const double start = now();
      const Batch batch = loader_->next().value_or_throw();
      const PendingReport report = step_->run(state_, batch).value_or_throw();
      const double returned = now();
      times.loss.push_back(step_->read(report).value_or_throw().loss);
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

  // For a peer: prints the compile times, then reads numbers, runs that many steps for each and
  // prints their seconds and losses, until the end of input.
  void serve() {
    std::cout << compile_report().dump() << std::endl;
    int64_t steps = 0;
    while (std::cin >> steps) {
      const StepTimes times = run(steps);
      std::cout << nlohmann::json{{"steps_s", times.step}, {"losses", times.loss}}.dump()
                << std::endl;
    }
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
        TrainStep::create(runtime_,
                          {*model_, rules_, config_.compute_dtype(), config_.remat_policy()},
                          optimizer_, layout_, options)
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

// Serves, or prints a report.
inline void run(const BenchOptions& options) {
  TrainingBench bench(options);
  if (options.serve) {
    bench.serve();
  } else {
    std::cout << bench.report(options.steps).dump() << std::endl;
  }
}

}  // namespace espalier::bench
