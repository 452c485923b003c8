#include "espalier/optim/rule.h"

#include <cmath>

#include "espalier/ops/elementwise.h"

namespace espalier {

bool decays(const ParamInfo& info, const OptimizerConfig& config) {
  return config.decay_parameters == "all" || (!info.vector && info.rank() >= 2);
}

Tensor descend(const Tensor& param, const Tensor& direction, double decay, const Tensor& rate) {
  const Tensor whole = decay == 0 ? direction : direction + param * decay;
  return param - whole * rate;
}

Tensor bias_correction(double beta, const Tensor& count) {
  return neg(expm1(count * std::log(beta)));
}

Tensor moving_average(const Tensor& average, const Tensor& value, double beta) {
  return value * (1.0 - beta) + average * beta;
}

Tensor corrected_average(const Tensor& average, const Tensor& grad, double beta, bool nesterov,
                         const Tensor& count) {
  if (!nesterov) return average / bias_correction(beta, count);
  return average / bias_correction(beta, count + 1.0) * beta +
         grad / bias_correction(beta, count) * (1.0 - beta);
}

}  // namespace espalier
