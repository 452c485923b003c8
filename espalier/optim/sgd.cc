#include "espalier/ops/elementwise.h"
#include "espalier/optim/rule.h"

namespace espalier {
namespace {

class Sgd final : public UpdateRule {
 public:
  Sgd(double momentum, bool nesterov) : momentum_(momentum), nesterov_(nesterov) {}

  std::vector<std::string> slots(const ParamInfo&) const override {
    if (momentum_ == 0) return {};
    return {"m"};
  }

  Tensor update(const ParamInfo&, const Tensor& param, const Tensor& grad,
                const UpdateScalars& scalars, Tensors& state) const override {
    if (momentum_ == 0) return descend(param, grad, 0, scalars.learning_rate);
    state[0] = grad + state[0] * momentum_;
    const Tensor direction = nesterov_ ? grad + state[0] * momentum_ : state[0];
    return descend(param, direction, 0, scalars.learning_rate);
  }

 private:
  double momentum_;
  bool nesterov_;
};

}  // namespace

std::shared_ptr<const UpdateRule> make_sgd(const OptimizerConfig& config) {
  return std::make_shared<Sgd>(config.momentum.value_or(0), config.nesterov.value_or(false));
}

}  // namespace espalier
