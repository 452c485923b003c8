// TextSampler: prompts to texts, for training's samples and for `espalier generate`.
#pragma once

#include <memory>
#include <string>

#include "espalier/generate/sampler.h"
#include "espalier/text/tokenizer.h"
#include "espalier/train/trainer.h"

namespace espalier {

struct TextRequest {
  std::string prompt;
  int64_t max_tokens = 0;  // prompt and continuation; 0: all that the model takes
  double temperature = 1;
  uint64_t seed = 0;
};

class TextSampler {
 public:
  TextSampler(Sampler sampler, const Tokenizer& tokenizer)
      : sampler_(std::move(sampler)), tokenizer_(&tokenizer) {}
  // Prompt and continuation as text.
  Result<std::string> operator()(std::span<DeviceArray* const> params, const TextRequest& request);
  // The failure that the prompt would give.
  Status check(const TextRequest& request) const;

 private:
  Result<Sampler::Request> encode(const TextRequest& request) const;
  Sampler sampler_;
  const Tokenizer* tokenizer_;  // not owned
};

Result<TextSampler> make_text_sampler(const std::shared_ptr<Runtime>& runtime,
                                      const LanguageModel& model,
                                      const std::vector<LayoutPtr>& params,
                                      const ShardingRules& rules, const Tokenizer& tokenizer,
                                      int64_t top_k);

// The sampler that a training run writes its texts with.
Result<SampleText> make_training_sampler(const Session& session);

}  // namespace espalier
