#include "cli/text_sampler.h"

#include <fmt/format.h>

#include <algorithm>

#include "espalier/text/utf8.h"

namespace espalier {
namespace {

SamplerOptions with_tokenizer(SamplerOptions options, const Tokenizer& tokenizer) {
  options.stop_at = tokenizer.end_of_text();
  options.vocab = tokenizer.vocab_size();
  return options;
}

// Bytes of the character that begins with this byte; 1 for a byte that begins none.
size_t character_size(char first) {
  const auto byte = static_cast<uint8_t>(first);
  if (byte >= 0xf0 && byte < 0xf8) return 4;
  if (byte >= 0xe0 && byte < 0xf0) return 3;
  if (byte >= 0xc0 && byte < 0xe0) return 2;
  return 1;
}

}  // namespace

size_t whole_characters(std::string_view text) {
  for (size_t back = 1; back <= std::min<size_t>(3, text.size()); ++back) {
    const char byte = text[text.size() - back];
    if (is_utf8_continuation(byte)) continue;
    return character_size(byte) > back ? text.size() - back : text.size();
  }
  return text.size();
}

TextSampler::TextSampler(const std::shared_ptr<Runtime>& runtime, const LanguageModel& model,
                         std::vector<LayoutPtr> params, const ShardingRules& rules,
                         const Tokenizer& tokenizer, SamplerOptions options)
    : sampler_(runtime, model, std::move(params), rules, with_tokenizer(options, tokenizer)),
      tokenizer_(&tokenizer) {}

Result<Sampler::Request> TextSampler::encode(const TextRequest& request) const {
  Sampler::Request out;
  try {
    out.prompt = tokenizer_->encode(request.prompt);
  } catch (const Error& error) {
    return Failure{error.code(), std::string("the prompt (sample.prompt or --prompt) cannot be "
                                             "encoded: ") +
                                     error.what()};
  }
  if (out.prompt.empty()) {
    const std::optional<int32_t> begin = tokenizer_->end_of_text();
    if (!begin) {
      return Failure{Code::kInvalidArgument,
                     fmt::format("the prompt is empty, and the tokenizer '{}' has no end-of-text "
                                 "token to begin with; give a text to continue",
                                 tokenizer_->name())};
    }
    out.prompt = {*begin};
  }
  out.max_tokens = request.max_tokens;
  out.temperature = request.temperature;
  out.seed = request.seed;
  out.samples = request.samples;
  out.slide = request.slide;
  return out;
}

Result<int64_t> TextSampler::check(const TextRequest& request) const {
  ESPALIER_ASSIGN(const Sampler::Request tokens, encode(request));
  ESPALIER_TRY(sampler_.check(tokens));
  return static_cast<int64_t>(tokens.prompt.size());
}

Result<std::vector<std::string>> TextSampler::operator()(std::span<DeviceArray* const> params,
                                                         const TextRequest& request,
                                                         const OnText& on_text) {
  ESPALIER_ASSIGN(const Sampler::Request tokens, encode(request));
  ESPALIER_TRY(sampler_.check(tokens));
  std::string held;  // bytes of the first text that are not shown yet
  Sampler::OnToken on_token;
  if (on_text) {
    if (!request.prompt.empty()) on_text(request.prompt);
    on_token = [&](int64_t sample, int32_t id) {
      if (sample > 0) return;
      held += tokenizer_->decode({&id, 1}).value_or_throw();
      const size_t whole = whole_characters(held);
      if (whole == 0) return;
      on_text(std::string_view(held).substr(0, whole));
      held.erase(0, whole);
    };
  }
  ESPALIER_ASSIGN(const auto texts, sampler_.generate(params, tokens, on_token));
  if (!held.empty()) on_text(held);
  std::vector<std::string> out;
  for (const std::vector<int32_t>& ids : texts) {
    const size_t unshown = request.prompt.empty() ? 1 : 0;
    ESPALIER_ASSIGN(std::string text, tokenizer_->decode(std::span(ids).subspan(unshown)));
    out.push_back(std::move(text));
  }
  return out;
}

Result<SampleText> make_training_sampler(const Session& session) {
  const size_t n = session.layout.num_params();
  std::vector<LayoutPtr> layouts;
  for (size_t i = 0; i < n; ++i) layouts.push_back(session.layout.arrays()[i].layout);
  const SampleConfig& config = session.config.sample;
  SamplerOptions options;
  options.top_k = config.top_k;
  options.top_p = config.top_p;
  options.dtype = session.config.compute_dtype();
  auto sampler = std::make_shared<TextSampler>(session.runtime, session.model, std::move(layouts),
                                               session.rules, session.tokenizer, options);
  TextRequest request;
  request.prompt = config.prompt;
  request.max_tokens = config.max_tokens;
  request.temperature = config.temperature;
  request.slide = config.slide;
  ESPALIER_TRY(sampler->check(request));
  const uint64_t seed = session.config.train.seed;
  return SampleText([=](TrainState& state, int64_t step) mutable -> Result<std::string> {
    std::vector<DeviceArray*> params;
    for (size_t i = 0; i < n; ++i) params.push_back(&state[i]);
    // Another text each time, the same one in a run that was stopped and resumed.
    request.seed = seed ^ (static_cast<uint64_t>(step) << 32);
    ESPALIER_ASSIGN(std::vector<std::string> texts, (*sampler)(params, request));
    return std::move(texts[0]);
  });
}

}  // namespace espalier
