#include "espalier/ops/elementwise.h"
#include "espalier/optim/rule.h"

namespace espalier {
namespace {

class Adam final : public UpdateRule {
 public:
  explicit Adam(const OptimizerConfig& config)
      : config_(config), nesterov_(config.nesterov.value_or(false)) {}

  std::vector<std::string> slots(const ParamInfo&) const override { return {"m", "v"}; }

  Tensor update(const ParamInfo& info, const Tensor& param, const Tensor& grad,
                const UpdateScalars& scalars, Tensors& state) const override {
    state[0] = moving_average(state[0], grad, config_.beta1);
    state[1] = moving_average(state[1], grad * grad, config_.beta2);
    const Tensor mean = corrected_average(state[0], grad, config_.beta1, nesterov_, scalars.count);
    const Tensor square = state[1] / bias_correction(config_.beta2, scalars.count);
    const Tensor direction = mean / (sqrt(square) + config_.epsilon);
    const double decay = decays(info, config_) ? config_.weight_decay : 0;
    return descend(param, direction, decay, scalars.learning_rate);
  }

 private:
  OptimizerConfig config_;
  bool nesterov_;
};

}  // namespace

std::shared_ptr<const UpdateRule> make_adam(const OptimizerConfig& config) {
  return std::make_shared<Adam>(config);
}

}  // namespace espalier
