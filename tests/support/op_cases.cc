#include "tests/support/op_cases.h"

#include <cmath>

namespace espalier::test {

ShardingRules case_rules() {
  ShardingRules rules;
  rules.axes["rows"] = {"a"};
  return rules;
}

const std::vector<OpCase>& op_cases() {
  static const std::vector<OpCase> cases = [] {
    std::vector<OpCase> out;
    add_elementwise_cases(out);
    add_shape_cases(out);
    add_structured_cases(out);
    add_manual_cases(out);
    return out;
  }();
  return cases;
}

std::vector<TensorType> inputs_of(const OpCase& op_case, DType floating) {
  std::vector<TensorType> out = op_case.inputs;
  for (TensorType& type : out) {
    if (type.dtype == DType::kF32) type.dtype = floating;
  }
  return out;
}

Function trace_case(const OpCase& op_case, DType floating) {
  return trace(inputs_of(op_case, floating), op_case.build);
}

std::vector<HostArray> random_arrays(const std::vector<TensorType>& types, double low, double high,
                                     std::string_view seed) {
  // FNV-1a of the seed text starts a 64-bit linear congruential generator (Knuth's constants),
  // whose high bits are used: the same numbers with every standard library.
  uint64_t state = 14695981039346656037ULL;
  for (const char c : seed) state = (state ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  const auto uniform = [&] {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    return static_cast<double>(state >> 11) * 0x1p-53;
  };
  std::vector<HostArray> out;
  for (const TensorType& type : types) {
    HostArray wide(DType::kF64, type.dims);
    for (double& x : wide.as<double>()) {
      if (is_floating(type.dtype)) {
        x = low + (high - low) * uniform();
      } else if (type.dtype == DType::kBool) {
        x = uniform() < 0.5;
      } else {
        const double first = is_unsigned(type.dtype) ? std::max(low, 0.0) : low;
        x = std::floor(first + (high - first + 1) * uniform());
      }
    }
    out.push_back(wide.converted(type.dtype));
  }
  return out;
}

}  // namespace espalier::test
