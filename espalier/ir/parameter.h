// Parameter: an input of a function. Every call makes a distinct one.
#pragma once

#include <string>

#include "espalier/ir/op.h"

namespace espalier {

struct Parameter {
  TensorType type;
  uint64_t serial = 0;  // tells two parameters of one type apart

  std::string_view name() const { return "parameter"; }
  bool operator==(const Parameter&) const = default;
  std::vector<TensorType> infer(Types in) const;
  Tensors vjp(const VjpArgs& args) const;
  void lower(hlo::Writer& writer, const Node& node) const;  // throws: functions bind parameters
};

Tensor parameter(TensorType type);
Tensors parameters(const std::vector<TensorType>& types);

}  // namespace espalier
