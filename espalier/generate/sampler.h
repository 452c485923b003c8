// Sampler: continues a prompt. A first program reads the prompt and fills a cache of keys and
// values; a second one makes a token of each text at a time from it. All texts of a batch continue
// the same prompt.
#pragma once

#include <compare>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "espalier/generate/decode.h"

namespace espalier {

struct SamplerOptions {
  int64_t top_k = 10;  // draw among the k likeliest tokens, all where there are fewer; 0: among all
  double top_p = 1;    // see DrawOptions; above 0, at most 1
  std::optional<int32_t> stop_at{};  // token that ends a text; it is not part of the result
  int64_t vocab = 0;                 // ids from here on are never drawn; 0: draw from all
  int64_t batch = 1;                 // texts made at a time
  DType dtype = DType::kF32;         // of computing, and of the cache
};

// Where the time of a call went.
struct SampleTimes {
  double compile_seconds = 0;  // also of loading compiled programs
  double prefill_seconds = 0;  // reading the prompts, first tokens included
  double decode_seconds = 0;   // all other tokens
  int64_t prompt_tokens = 0;   // read: the prompt once for each batch
  int64_t first_tokens = 0;    // drawn by the prefill
  int64_t decode_tokens = 0;   // drawn later; of texts that went on
};

// Move-only. Programs are compiled when they are first needed. One call at a time.
class Sampler {
 public:
  // `params`: the layouts of the arrays that generate() gets, in the order of model.params(). The
  // model is not owned. Throws Error where an option does not fit the model.
  Sampler(std::shared_ptr<Runtime> runtime, const LanguageModel& model,
          std::vector<LayoutPtr> params, const ShardingRules& rules, const SamplerOptions& options);

  struct Request {
    std::vector<int32_t> prompt;  // at least one token
    int64_t max_tokens = 0;       // length of prompt and continuation; 0: all that the model takes
    double temperature = 1;       // logits are divided by it; 0: always the likeliest token
    uint64_t seed = 0;            // of the first text; text i has seed + i
    int64_t samples = 1;
    // Texts and prompts may be longer than the model's longest sequence: once it is full, each
    // token is computed from the last max_len() tokens anew, which are put at the first positions.
    // That takes a pass over the whole sequence for each token. Without it, texts end there.
    bool slide = false;
  };
  // Gets each token behind the prompt as soon as it is known.
  using OnToken = std::function<void(int64_t sample, int32_t id)>;

  // Prompt and continuation of each sample. A token is a function of the parameters, the prompt,
  // the sample's seed and the token's place: up to the rounding of the logits it does not depend on
  // the mesh, on how long texts get, on the other samples or on how many are made at a time.
  // kInvalidArgument where the prompt is empty, has unknown ids, or fills the model's longest
  // sequence without `slide`, naming both lengths.
  Result<std::vector<std::vector<int32_t>>> generate(std::span<DeviceArray* const> params,
                                                     const Request& request,
                                                     const OnToken& on_token = {});
  // The failure that generate() would give for its request.
  Status check(const Request& request) const;
  // Of the last generate().
  const SampleTimes& times() const { return times_; }
  int64_t max_len() const { return spec_.model->max_len(); }

 private:
  class Batch;  // the texts that are made together

  // A prompt's length with its padding, and how many positions the cache has.
  struct Lengths {
    int64_t bucket, cache;
    auto operator<=>(const Lengths&) const = default;
  };
  // The program at `place`, compiled by `make` where there is none yet.
  template <class Make>
  Result<Program*> kept(std::optional<Program>& place, const Make& make);
  Result<Program*> prefill(const Lengths& lengths);
  Result<Program*> step(int64_t cache_length);
  Result<Program*> window();

  std::shared_ptr<Runtime> runtime_;
  DecodeSpec spec_;
  std::optional<int32_t> stop_at_;
  std::map<Lengths, std::optional<Program>> prefill_;
  std::map<int64_t, std::optional<Program>> step_;  // by the cache's length
  std::optional<Program> window_;
  SampleTimes times_;
};

}  // namespace espalier
