// A call of a handler registered with the plugin (XLA's FFI, api version 4), or of one of XLA's own
// that takes its configuration as one text (api version 2).
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
  // For api version 2: the text, and the order of each result's dims in memory, minor to major;
  // operands lie row-major. Not empty in such a call.
  std::string config{};
  std::vector<std::vector<int64_t>> result_layouts{};
  ESPALIER_OP_RULES(CustomCall, "custom_call");  // no gradient: wrap it in custom_vjp
};

Tensors custom_call(std::string target, const Tensors& operands, std::vector<TensorType> results,
                    std::vector<std::pair<std::string, CallAttribute>> attributes = {});

// A call of api version 2, with one layout for each result.
Tensors custom_call(std::string target, const Tensors& operands, std::vector<TensorType> results,
                    std::string config, std::vector<std::vector<int64_t>> result_layouts);

}  // namespace espalier
