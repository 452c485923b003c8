// The rules that every op struct declares: name, equality of attributes, shape rule, gradient,
// text.
#pragma once

#include "espalier/ir/op.h"

#define ESPALIER_OP_RULES(Name, text)            \
  std::string_view name() const { return text; } \
  bool operator==(const Name&) const = default;  \
  std::vector<TensorType> infer(Types in) const; \
  Tensors vjp(const VjpArgs& args) const;        \
  void lower(hlo::Writer& writer, const Node& node) const
