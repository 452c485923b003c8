// TextSampler: prompts to texts, for training's samples and for `espalier generate`.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/generate/sampler.h"
#include "espalier/text/tokenizer.h"
#include "espalier/train/trainer.h"

namespace espalier {

struct TextRequest {
  // Empty: the text begins with the tokenizer's end-of-text token, which is not shown.
  std::string prompt;
  int64_t max_tokens = 0;  // prompt and continuation; 0: all that the model takes
  double temperature = 1;
  uint64_t seed = 0;    // of the first text; text i has seed + i
  int64_t samples = 1;  // texts
  bool slide = false;   // see Sampler::Request
};

// Bytes of the longest part of `text` that does not end within a character: what can be shown when
// more bytes may follow. Bytes that no character begins with count as characters.
size_t whole_characters(std::string_view text);

// Move-only. The tokenizer is not owned.
class TextSampler {
 public:
  // `options.stop_at` and `options.vocab` are the tokenizer's; the rest is Sampler's.
  TextSampler(const std::shared_ptr<Runtime>& runtime, const LanguageModel& model,
              std::vector<LayoutPtr> params, const ShardingRules& rules, const Tokenizer& tokenizer,
              SamplerOptions options);

  // Gets the text piece by piece, the prompt first. No piece is empty, and none ends within a
  // character that the next one completes.
  using OnText = std::function<void(std::string_view)>;
  // Prompt and continuation as texts. `on_text` gets the first of them while it is made.
  Result<std::vector<std::string>> operator()(std::span<DeviceArray* const> params,
                                              const TextRequest& request,
                                              const OnText& on_text = {});
  // The failure that the request would give. Where there is none: tokens of the prompt.
  Result<int64_t> check(const TextRequest& request) const;

  const SampleTimes& times() const { return sampler_.times(); }
  int64_t max_len() const { return sampler_.max_len(); }

 private:
  Result<Sampler::Request> encode(const TextRequest& request) const;
  Sampler sampler_;
  const Tokenizer* tokenizer_;
};

// The sampler that a training run writes its texts with.
Result<SampleText> make_training_sampler(const Session& session);

}  // namespace espalier
