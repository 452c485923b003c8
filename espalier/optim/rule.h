// UpdateRule: what one optimizer does to one parameter. Everything is f32 here.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "espalier/ir/tensor.h"
#include "espalier/optim/config.h"

namespace espalier {

// What an optimizer must know of a parameter.
struct ParamInfo {
  std::string name;
  TensorType type;
  bool vector = false;   // a bias or scale, whatever its shape
  bool stacked = false;  // the first dim counts layers
  // Dims of `type` that are a matrix's input and output, which Muon takes; the others count
  // matrices. Empty: no matrix.
  std::vector<int64_t> matrix_in{}, matrix_out{};

  // Dims without that of the layers.
  int64_t rank() const { return type.rank() - (stacked ? 1 : 0); }
};

// What all parameters of an update share.
struct UpdateScalars {
  Tensor count;          // f32 scalar: number of this update, from 1
  Tensor learning_rate;  // f32 scalar
};

class UpdateRule {
 public:
  virtual ~UpdateRule() = default;
  // Names of the arrays it keeps for a parameter, each of the parameter's shape.
  virtual std::vector<std::string> slots(const ParamInfo& info) const = 0;
  // The new parameter; replaces `state`, one array per slot, by its next value.
  virtual Tensor update(const ParamInfo& info, const Tensor& param, const Tensor& grad,
                        const UpdateScalars& scalars, Tensors& state) const = 0;
};

// optax.sgd: m = g + momentum m; the step is m, or g + momentum m with Nesterov's rule.
std::shared_ptr<const UpdateRule> make_sgd(const OptimizerConfig& config);
// optax.adam and adamw (Kingma and Ba 2015; Loshchilov and Hutter 2019; Nesterov: Dozat 2016).
std::shared_ptr<const UpdateRule> make_adam(const OptimizerConfig& config);
// optax.contrib.muon (Jordan 2024) for hidden matrices, Adam for other parameters.
std::shared_ptr<const UpdateRule> make_muon(const OptimizerConfig& config);

// Whether a parameter decays under a config's decay_parameters. "matrices": parameters of two dims
// or more that are no bias or scale; "all": every one.
bool decays(const ParamInfo& info, const OptimizerConfig& config);

// param - rate (direction + decay param).
Tensor descend(const Tensor& param, const Tensor& direction, double decay, const Tensor& rate);
// 1 - beta^count, f32 scalar, without the cancellation of computing it so.
Tensor bias_correction(double beta, const Tensor& count);
// (1 - beta) value + beta average.
Tensor moving_average(const Tensor& average, const Tensor& value, double beta);
// The bias-corrected average of gradients; with Nesterov's rule, that of the next step as far as it
// is known: beta m / (1 - beta^(count + 1)) + (1 - beta) g / (1 - beta^count).
Tensor corrected_average(const Tensor& average, const Tensor& grad, double beta, bool nesterov,
                         const Tensor& count);

}  // namespace espalier
