// Muon: momentum whose matrices are made nearly orthogonal by a Newton-Schulz iteration.
// Jordan, https://kellerjordan.github.io/posts/muon (2024); the rules in detail are those of
// optax.contrib.muon 0.2.8.
#include <algorithm>
#include <cmath>

#include "espalier/ops/dot.h"
#include "espalier/ops/elementwise.h"
#include "espalier/ops/reduce.h"
#include "espalier/ops/shape.h"
#include "espalier/optim/rule.h"

namespace espalier {
namespace {

// Coefficients of the quintic a x + b x^3 + c x^5, chosen for the steepest slope at 0: singular
// values end between about 0.7 and 1.2 instead of at 1.
constexpr double kA = 3.4445, kB = -4.7750, kC = 2.0315;

// x (..., R, C) with its singular values driven towards 1.
Tensor orthogonalize(Tensor x, int64_t steps, double epsilon) {
  const int64_t row = x.rank() - 2, column = x.rank() - 1;
  std::vector<int64_t> batch;
  for (int64_t d = 0; d < row; ++d) batch.push_back(d);
  const auto product = [&](const Tensor& a, const Tensor& b, int64_t dim_a, int64_t dim_b) {
    return dot_general(a, b, batch, batch, {dim_a}, {dim_b});
  };
  const std::vector<int64_t> matrix = {row, column};
  x = x / (keep_dims(sqrt(reduce_sum(x * x, matrix)), x, matrix) + epsilon);
  // X (a + b A + c A A) with A = X^T X is (a + b A + c A A) X with A = X X^T: the smaller A wins.
  const bool tall = x.dim(row) > x.dim(column);
  for (int64_t i = 0; i < steps; ++i) {
    const Tensor gram = tall ? product(x, x, row, row) : product(x, x, column, column);
    const Tensor sum = gram * kB + product(gram * kC, gram, column, row);
    x = x * kA + (tall ? product(x, sum, column, row) : product(sum, x, column, row));
  }
  return x;
}

// A parameter's dims put as (counting dims..., rows, columns), and back. Rows are its input or its
// output, whichever comes first: the iteration treats a matrix and its transpose alike.
class MatrixView {
 public:
  explicit MatrixView(const ParamInfo& info) : dims_(info.type.dims) {
    const auto part_of = [](const std::vector<int64_t>& list, int64_t d) {
      return std::find(list.begin(), list.end(), d) != list.end();
    };
    for (int64_t d = 0; d < info.type.rank(); ++d) {
      if (part_of(info.matrix_in, d) || part_of(info.matrix_out, d)) continue;
      order_.push_back(d);
      view_.push_back(dims_[static_cast<size_t>(d)]);
    }
    const auto add = [&](const std::vector<int64_t>& dims) {
      int64_t size = 1;
      for (const int64_t d : dims) size *= dims_[static_cast<size_t>(d)];
      order_.insert(order_.end(), dims.begin(), dims.end());
      view_.push_back(size);
      return static_cast<double>(size);
    };
    if (info.matrix_in[0] < info.matrix_out[0]) {
      fan_in_ = add(info.matrix_in);
      fan_out_ = add(info.matrix_out);
    } else {
      fan_out_ = add(info.matrix_out);
      fan_in_ = add(info.matrix_in);
    }
  }

  double fan_in() const { return fan_in_; }
  double fan_out() const { return fan_out_; }
  Tensor matrices(const Tensor& x) const { return reshape(transpose(x, order_), view_); }
  Tensor original(const Tensor& matrices) const {
    Dims ordered;
    std::vector<int64_t> back(order_.size());
    for (size_t i = 0; i < order_.size(); ++i) {
      ordered.push_back(dims_[static_cast<size_t>(order_[i])]);
      back[static_cast<size_t>(order_[i])] = static_cast<int64_t>(i);
    }
    return transpose(reshape(matrices, ordered), back);
  }

 private:
  Dims dims_, view_;
  double fan_in_ = 0, fan_out_ = 0;
  std::vector<int64_t> order_;  // the parameter's dim at each dim of the ordered array
};

class Muon final : public UpdateRule {
 public:
  explicit Muon(const OptimizerConfig& config)
      : config_(config),
        momentum_(config.momentum.value_or(0.95)),
        nesterov_(config.nesterov.value_or(true)) {
    OptimizerConfig adam = config;
    adam.weight_decay = config.adam_weight_decay;
    adam.nesterov = nesterov_;
    adam_ = make_adam(adam);
    if (config.adam_learning_rate) {  // then learning_rate is above 0: see validate()
      adam_rate_ = *config.adam_learning_rate / config.learning_rate;
    }
  }

  std::vector<std::string> slots(const ParamInfo& info) const override {
    if (info.matrix_in.empty()) return adam_->slots(info);
    return {"m"};
  }

  Tensor update(const ParamInfo& info, const Tensor& param, const Tensor& grad,
                const UpdateScalars& scalars, Tensors& state) const override {
    if (info.matrix_in.empty()) {
      UpdateScalars own = scalars;
      if (adam_rate_ != 1) own.learning_rate = scalars.learning_rate * adam_rate_;
      return adam_->update(info, param, grad, own, state);
    }
    state[0] = moving_average(state[0], grad, momentum_);
    const Tensor average = corrected_average(state[0], grad, momentum_, nesterov_, scalars.count);
    const MatrixView view(info);
    const Tensor matrices =
        orthogonalize(view.matrices(average), config_.newton_schulz_steps, config_.epsilon);
    const Tensor direction = view.original(matrices) * scale(view);
    const double decay = decays(info, config_) ? config_.weight_decay : 0;
    return descend(param, direction, decay, scalars.learning_rate);
  }

 private:
  double scale(const MatrixView& view) const {
    if (config_.consistent_rms > 0) {
      return std::sqrt(std::max(view.fan_in(), view.fan_out())) * config_.consistent_rms;
    }
    return std::sqrt(std::max(1.0, view.fan_out() / view.fan_in()));
  }

  OptimizerConfig config_;
  double momentum_;
  bool nesterov_;
  std::shared_ptr<const UpdateRule> adam_;
  double adam_rate_ = 1;
};

}  // namespace

std::shared_ptr<const UpdateRule> make_muon(const OptimizerConfig& config) {
  return std::make_shared<Muon>(config);
}

}  // namespace espalier
