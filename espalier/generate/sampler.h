// Sampler: continues a prompt by a compiled program that runs the whole text on the device. It is
// compiled once for the model's longest sequence, whatever the lengths of prompt and text.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "espalier/models/language_model.h"
#include "espalier/runtime/program.h"

namespace espalier {

struct SamplerOptions {
  int64_t top_k = 10;                // draw among the k likeliest tokens; 0: among all
  std::optional<int32_t> stop_at{};  // token that ends a text; it is not part of the result
};

class Sampler {
 public:
  // `params`: the layouts of the arrays that generate() gets, in the order of model.params().
  // Throws Error where top_k is larger than the vocabulary.
  static Result<Sampler> create(const std::shared_ptr<Runtime>& runtime, const LanguageModel& model,
                                const std::vector<LayoutPtr>& params, const ShardingRules& rules,
                                const SamplerOptions& options);

  struct Request {
    std::vector<int32_t> prompt;  // at least one token
    int64_t max_tokens = 0;       // length of prompt and continuation; 0: all that the model takes
    double temperature = 1;       // logits are divided by it; 0: always the likeliest token
    uint64_t seed = 0;
  };
  // Prompt and continuation. kInvalidArgument where the prompt is empty or fills the model's
  // longest sequence, naming both lengths.
  Result<std::vector<int32_t>> generate(std::span<DeviceArray* const> params,
                                        const Request& request);
  // The failure that generate() would give for its prompt.
  Status check(const Request& request) const;
  const CompileReport& report() const { return program_.report(); }

 private:
  Sampler(std::shared_ptr<Runtime> runtime, Program program, int64_t max_len, int64_t vocab)
      : runtime_(std::move(runtime)),
        program_(std::move(program)),
        max_len_(max_len),
        vocab_(vocab) {}
  std::shared_ptr<Runtime> runtime_;
  Program program_;
  int64_t max_len_, vocab_;
};

}  // namespace espalier
