// LanguageModel: what training, evaluation and generation need of a model. A model knows nothing of
// meshes: it names logical axes, and rules map them.
#pragma once

#include <memory>
#include <string>

#include "espalier/nn/ctx.h"

namespace espalier {

// B batch, T sequence, D model width, V vocabulary. Immutable once built; thread-safe.
class LanguageModel {
 public:
  virtual ~LanguageModel() = default;

  virtual std::string_view name() const = 0;
  virtual int64_t vocab_size() const = 0;
  virtual int64_t max_len() const = 0;  // longest sequence it can take
  const ParamSpecs& params() const { return params_; }

  // Final hidden states (B, T, D) of token ids (B, T), T at most max_len().
  virtual Tensor hidden(const Tensor& tokens_BT, const Ctx& cx) const = 0;
  // Logits (..., V) of hidden states (..., D).
  virtual Tensor logits(const Tensor& hidden, const Ctx& cx) const = 0;
  // Mean cross-entropy over all positions, in nats; `chunks` as in linear_cross_entropy.
  virtual Tensor loss(const Tensor& tokens_BT, const Tensor& targets_BT, const Ctx& cx,
                      int64_t chunks) const = 0;

 protected:
  ParamSpecs params_;
};

}  // namespace espalier
