#include "espalier/ir/parameter.h"

#include <atomic>

namespace espalier {

std::vector<TensorType> Parameter::infer(Types in) const {
  require_operands(name(), in, 0);
  return {type};
}

Tensors Parameter::vjp(const VjpArgs&) const { return {}; }

void Parameter::lower(hlo::Writer&, const Node& node) const {
  fail(name(), "a parameter of type " + to_string(node.types[0]) +
                   " is not bound: a tensor of one function is used in another");
}

Tensor parameter(TensorType type) {
  static std::atomic<uint64_t> next{1};
  return apply(Parameter{std::move(type), next++}, {});
}

Tensors parameters(const std::vector<TensorType>& types) {
  Tensors out;
  for (const TensorType& type : types) out.push_back(parameter(type));
  return out;
}

}  // namespace espalier
