// A call of a handler registered with the plugin (XLA's FFI, api version 4).
#pragma once

#include <variant>

#include "espalier/ops/rules.h"

namespace espalier {

using CallAttribute = std::variant<int64_t, double, std::string>;  // i64, f64 and string in FFI

struct CustomCall {
  std::string target;
  std::vector<TensorType> results;
  std::vector<std::pair<std::string, CallAttribute>> attributes;
  bool has_side_effect = false;
  ESPALIER_OP_RULES(CustomCall, "custom_call");  // no gradient: wrap it in custom_vjp
};

Tensors custom_call(std::string target, const Tensors& operands, std::vector<TensorType> results,
                    std::vector<std::pair<std::string, CallAttribute>> attributes = {});

}  // namespace espalier
