// LanguageModel: what training, evaluation and generation need of a model. A model knows nothing of
// meshes: it names logical axes, and rules map them.
#pragma once

#include <memory>
#include <string>

#include "espalier/nn/kv_cache.h"
#include "espalier/nn/loss.h"

namespace espalier {

// The longest sequence of a model and the recipe's key for it.
struct SequenceLength {
  int64_t value = 0;
  std::string_view key;
};

// B batch, T sequence, D model width, V vocabulary. Thread-safe while it is not changed.
class LanguageModel {
 public:
  virtual ~LanguageModel() = default;

  virtual std::string_view name() const = 0;
  virtual int64_t vocab_size() const = 0;
  virtual int64_t max_len() const = 0;  // longest sequence it can take
  const ParamSpecs& params() const { return params_; }
  // Holds all parameters in this floating-point type; to be called before anything is laid out.
  void hold_params_in(DType dtype) {
    for (ParamSpec& spec : params_) spec.dtype = dtype;
  }

  virtual KvShape kv_shape() const = 0;

  // Final hidden states (B, T, D) of token ids (B, T), T at most max_len(). With a cache in `cx`,
  // of the tokens that follow those in the cache.
  virtual Tensor hidden(const Tensor& tokens_BT, const Ctx& cx) const = 0;
  // What makes logits of them.
  virtual OutputLayer output(const Ctx& cx) const = 0;

  // Logits (..., V) of hidden states (..., D).
  Tensor logits(const Tensor& hidden, const Ctx& cx) const {
    return output_logits(hidden, output(cx));
  }
  // Cross-entropy in nats, as a sum over positions and how many they are.
  LossSum loss(const Tensor& tokens_BT, const Tensor& targets_BT, const Ctx& cx,
               const LossOptions& options) const {
    return linear_cross_entropy(hidden(tokens_BT, cx), output(cx), targets_BT, options);
  }

 protected:
  ParamSpecs params_;
};

}  // namespace espalier
