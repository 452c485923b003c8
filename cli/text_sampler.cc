#include "cli/text_sampler.h"

namespace espalier {

Result<Sampler::Request> TextSampler::encode(const TextRequest& request) const {
  Sampler::Request out;
  try {
    out.prompt = tokenizer_->encode(request.prompt);
  } catch (const Error& error) {
    return Failure{error.code(), std::string("the prompt (sample.prompt or --prompt) cannot be "
                                             "encoded: ") +
                                     error.what()};
  }
  out.max_tokens = request.max_tokens;
  out.temperature = request.temperature;
  out.seed = request.seed;
  return out;
}

Status TextSampler::check(const TextRequest& request) const {
  ESPALIER_ASSIGN(const Sampler::Request tokens, encode(request));
  return sampler_.check(tokens);
}

Result<std::string> TextSampler::operator()(std::span<DeviceArray* const> params,
                                            const TextRequest& request) {
  ESPALIER_ASSIGN(const Sampler::Request tokens, encode(request));
  ESPALIER_ASSIGN(const std::vector<int32_t> ids, sampler_.generate(params, tokens));
  return tokenizer_->decode(ids);
}

Result<TextSampler> make_text_sampler(const std::shared_ptr<Runtime>& runtime,
                                      const LanguageModel& model,
                                      const std::vector<LayoutPtr>& params,
                                      const ShardingRules& rules, const Tokenizer& tokenizer,
                                      int64_t top_k) {
  SamplerOptions options;
  options.top_k = top_k;
  options.stop_at = tokenizer.end_of_text();
  ESPALIER_ASSIGN(Sampler sampler, Sampler::create(runtime, model, params, rules, options));
  return TextSampler(std::move(sampler), tokenizer);
}

Result<SampleText> make_training_sampler(const Session& session) {
  const size_t n = session.layout.num_params();
  std::vector<LayoutPtr> layouts;
  for (size_t i = 0; i < n; ++i) layouts.push_back(session.layout.arrays()[i].layout);
  ESPALIER_ASSIGN(TextSampler made,
                  make_text_sampler(session.runtime, session.model, layouts, session.rules,
                                    session.tokenizer, session.config.sample.top_k));
  auto sampler = std::make_shared<TextSampler>(std::move(made));
  TextRequest request;
  request.prompt = session.config.sample.prompt;
  request.max_tokens = session.config.sample.max_tokens;
  request.temperature = session.config.sample.temperature;
  ESPALIER_TRY(sampler->check(request));
  const uint64_t seed = session.config.train.seed;
  return SampleText([=](TrainState& state, int64_t step) mutable {
    std::vector<DeviceArray*> params;
    for (size_t i = 0; i < n; ++i) params.push_back(&state[i]);
    // Another text each time, the same one in a run that was stopped and resumed.
    request.seed = seed ^ (static_cast<uint64_t>(step) << 32);
    return (*sampler)(params, request);
  });
}

}  // namespace espalier
