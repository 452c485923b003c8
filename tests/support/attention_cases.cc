#include "tests/support/attention_cases.h"

#include <algorithm>
#include <cmath>

#include "espalier/transform/grad.h"

namespace espalier::test {

Function with_gradients(const AttentionShape& shape, const Build& build, DType dtype) {
  return trace(shape.types(dtype), [&](const Tensors& in) {
    const Tensor o = build(in[0], in[1], in[2]);
    const Linearized linear = linearize({o}, {in[0], in[1], in[2]});
    Tensors out = linear.pullback({in[3]});
    out.insert(out.begin(), linear.outputs[0]);
    return out;
  });
}

double apart(const HostArray& a, const HostArray& b) {
  const HostArray got = a.converted(DType::kF64), want = b.converted(DType::kF64);
  double difference = 0, largest = 0;
  for (size_t i = 0; i < want.as<double>().size(); ++i) {
    const double x = got.as<double>()[i], y = want.as<double>()[i];
    if (!std::isfinite(x)) return INFINITY;
    difference = std::max(difference, std::abs(x - y));
    largest = std::max(largest, std::abs(y));
  }
  return largest == 0 ? difference : difference / largest;
}

ProgramSpec program_of(const Function& function, const PartitionSpec& spec) {
  ProgramSpec out;
  out.function = function;
  for (const Tensor& p : function.params)
    out.arguments.push_back({"x", make_layout(p.type(), spec)});
  out.results.assign(function.results.size(), spec);
  return out;
}

}  // namespace espalier::test
