// The compiled parts of generation. B rows of a batch that continue one prompt, S positions of the
// cache, N the model's longest sequence, L layers, H heads, K width of a head.
#pragma once

#include <vector>

#include "espalier/generate/draw.h"
#include "espalier/models/language_model.h"
#include "espalier/runtime/program.h"

namespace espalier {

// What the programs of one sampler have in common. The model is not owned.
struct DecodeSpec {
  const LanguageModel* model = nullptr;
  std::vector<LayoutPtr> params;  // of its parameters' arrays, in the order of model->params()
  ShardingRules rules;            // the cache is split by the rule of "heads"
  DrawOptions draw{};
  int64_t vocab = 0;          // ids from here on are never drawn
  int64_t rows = 1;           // B
  DType dtype = DType::kF32;  // of computing, and of the cache
};

// Every program takes the parameters first. `count` (s32 scalar) is how many tokens each text has
// before the one that is drawn; temperature is f32[], keys u32[B, 2].

// (tokens s32[1, bucket], length s32[], count, temperature, keys) to (ids s32[B], count + 1, keys
// and values (L, B, S, H, K) of the cache), bucket <= S <= N. The first `length` tokens are the
// prompt; what those behind it leave in the cache is overwritten before any token sees it.
Result<Program> compile_prefill(const std::shared_ptr<Runtime>& runtime, const DecodeSpec& spec,
                                int64_t bucket, int64_t cache_length);
// (ids s32[B], count, keys and values of the cache, temperature, keys) to what prefill gives. `ids`
// are the newest tokens of the texts, count - 1 before them; count is at most S. Count and cache
// are donated.
Result<Program> compile_step(const std::shared_ptr<Runtime>& runtime, const DecodeSpec& spec,
                             int64_t cache_length);
// (window s32[B, N], count, temperature, keys) to (ids s32[B], count + 1, the window moved on by
// one): each text's last N tokens, computed anew. Window and count are donated.
Result<Program> compile_window(const std::shared_ptr<Runtime>& runtime, const DecodeSpec& spec);

}  // namespace espalier
