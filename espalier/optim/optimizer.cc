#include "espalier/optim/optimizer.h"

#include <spdlog/fmt/fmt.h>

#include "espalier/ops/elementwise.h"
#include "espalier/ops/reduce.h"
#include "espalier/ops/shape.h"
#include "espalier/ops/source.h"

namespace espalier {
namespace {

void require_count(const char* what, size_t expected, size_t got) {
  if (expected == got) return;
  throw Error(fmt::format("[optimizer] needs {} {}, got {}", expected, what, got));
}

void require_array(const char* what, const std::string& name, const TensorType& expected,
                   const Tensor& got) {
  if (!got.empty() && got.type() == expected) return;
  throw Error(fmt::format("[optimizer] {} of '{}' must be {}, got {}", what, name,
                          to_string(expected), got.empty() ? "none" : to_string(got.type())));
}

// f32 (layers), or (1): the sum of squares in each layer.
Tensor layer_squares(const ParamInfo& info, const Tensor& wide) {
  std::vector<int64_t> dims;
  for (int64_t d = info.stacked ? 1 : 0; d < wide.rank(); ++d) dims.push_back(d);
  const Tensor sums = reduce_sum(wide * wide, dims);
  return reshape(sums, {sums.size()});
}

}  // namespace

Tensors clip_by_global_norm(const Tensors& arrays, const Tensor& norm, double limit) {
  const Tensor most = scalar(DType::kF32, limit);
  const Tensor factor =
      select(compare(norm, most, Direction::kLt), scalar(DType::kF32, 1), most / norm);
  Tensors out;
  for (const Tensor& array : arrays) out.push_back(array * factor);
  return out;
}

std::vector<StateInfo> Optimizer::state(const std::vector<ParamInfo>& infos) const {
  std::vector<StateInfo> out;
  for (size_t i = 0; i < infos.size(); ++i) {
    for (const std::string& slot : rule_->slots(infos[i])) {
      out.push_back(
          {"optimizer." + slot + "." + infos[i].name, {DType::kF32, infos[i].type.dims}, i});
    }
  }
  return out;
}

OptimizerUpdate Optimizer::update(const std::vector<ParamInfo>& infos, const Tensors& params,
                                  const Tensors& grads, const Tensors& state,
                                  const Tensor& step) const {
  const std::vector<StateInfo> slots = this->state(infos);
  require_count("parameters", infos.size(), params.size());
  require_count("gradients", infos.size(), grads.size());
  require_count("state arrays", slots.size(), state.size());
  Tensors wide;
  for (size_t i = 0; i < infos.size(); ++i) {
    require_array("the parameter", infos[i].name, infos[i].type, params[i]);
    const DType dtype = grads[i].empty() ? DType::kF32 : grads[i].dtype();
    require_array("the gradient", infos[i].name, {dtype, infos[i].type.dims}, grads[i]);
    wide.push_back(convert(grads[i], DType::kF32));
  }
  for (size_t i = 0; i < slots.size(); ++i) {
    require_array("the state", slots[i].name, slots[i].type, state[i]);
  }

  OptimizerUpdate out;
  Tensor squares = scalar(DType::kF32, 0);
  for (size_t i = 0; i < infos.size(); ++i) {
    out.grad_squares.push_back(layer_squares(infos[i], wide[i]));
    squares = squares + reduce_sum(out.grad_squares.back());
  }
  out.grad_norm = sqrt(squares);
  if (clip_norm_ > 0) wide = clip_by_global_norm(wide, out.grad_norm, clip_norm_);
  out.learning_rate = schedule_(step);
  const UpdateScalars scalars{convert(step, DType::kF32) + 1.0, out.learning_rate};
  size_t next = 0;
  for (size_t i = 0; i < infos.size(); ++i) {
    Tensors own;
    for (; next < slots.size() && slots[next].param == i; ++next) own.push_back(state[next]);
    const Tensor param = convert(params[i], DType::kF32);
    const Tensor updated = rule_->update(infos[i], param, wide[i], scalars, own);
    out.params.push_back(convert(updated, infos[i].type.dtype));
    out.state.insert(out.state.end(), own.begin(), own.end());
  }
  return out;
}

Result<Optimizer> make_optimizer(const OptimizerConfig& config) {
  ESPALIER_ASSIGN(Schedule schedule, Schedule::create(config));
  const auto rule = config.name == "sgd"    ? make_sgd(config)
                    : config.name == "muon" ? make_muon(config)
                                            : make_adam(config);
  return Optimizer(std::move(schedule), config.clip_norm, rule);
}

}  // namespace espalier
