#include "tests/support/derivatives.h"

#include <cmath>

#include "espalier/ir/parameter.h"
#include "espalier/ops/source.h"
#include "espalier/transform/grad.h"
#include "espalier/transform/simplify.h"
#include "tests/support/compare.h"
#include "tests/support/op_cases.h"
#include "tests/support/oracle.h"

namespace espalier::test {
namespace {

double weighted_sum(const Function& function, const std::vector<HostArray>& arguments,
                    const std::vector<HostArray>& cotangents) {
  const std::vector<HostArray> results = evaluate(function, arguments);
  double sum = 0;
  size_t next = 0;
  for (const HostArray& result : results) {
    if (!is_floating(result.dtype())) continue;
    const HostArray y = result.converted(DType::kF64);
    const HostArray ct = cotangents[next++].converted(DType::kF64);
    for (size_t i = 0; i < y.as<double>().size(); ++i) {
      sum += y.as<double>()[i] * ct.as<double>()[i];
    }
  }
  return sum;
}

}  // namespace

std::vector<TensorType> cotangent_types(const Function& function) {
  std::vector<TensorType> out;
  for (const Tensor& t : function.results) {
    if (is_floating(t.dtype())) out.push_back(t.type());
  }
  return out;
}

Function pullback_of(const Function& function) {
  Tensors wrt;
  for (const Tensor& p : function.params) {
    if (is_floating(p.dtype())) wrt.push_back(p);
  }
  const Linearized linear = linearize(function.results, wrt);
  Function out;
  out.params = function.params;
  Tensors cotangents;
  for (const Tensor& t : function.results) {
    cotangents.push_back(is_floating(t.dtype()) ? parameter(t.type()) : Tensor());
    if (!cotangents.back().empty()) out.params.push_back(cotangents.back());
  }
  out.results = linear.pullback(cotangents);
  for (size_t i = 0; i < wrt.size(); ++i) {
    if (out.results[i].empty()) out.results[i] = zeros_like(wrt[i]);
  }
  verify(out);
  return out;
}

std::vector<HostArray> numeric_cotangents(const Function& function,
                                          const std::vector<HostArray>& arguments,
                                          const std::vector<HostArray>& cotangents) {
  std::vector<HostArray> out;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (!is_floating(arguments[i].dtype())) continue;
    HostArray grad(DType::kF64, arguments[i].dims());
    for (size_t k = 0; k < grad.as<double>().size(); ++k) {
      std::vector<HostArray> moved = arguments;
      moved[i] = arguments[i].clone();
      double& x = moved[i].as<double>()[k];
      const double start = x, h = 6e-6 * (1 + std::abs(x));
      x = start + h;
      const double above = weighted_sum(function, moved, cotangents);
      x = start - h;
      grad.as<double>()[k] = (above - weighted_sum(function, moved, cotangents)) / (2 * h);
    }
    out.push_back(std::move(grad));
  }
  return out;
}

void expect_gradient(const std::vector<TensorType>& inputs,
                     const std::function<Tensors(const Tensors&)>& build, double low, double high) {
  const Function function = trace(inputs, build);
  auto arguments = random_arrays(inputs, low, high, "arguments");
  const auto cotangents = random_arrays(cotangent_types(function), -1, 1, "cotangents");
  const auto numeric = numeric_cotangents(function, arguments, cotangents);
  arguments.insert(arguments.end(), cotangents.begin(), cotangents.end());
  const Function pullback = pullback_of(function);
  const auto grads = evaluate(pullback, arguments);
  const Function simple = simplify(pullback);
  verify(simple);
  const auto again = evaluate(simple, arguments);
  for (size_t i = 0; i < numeric.size(); ++i) {
    EXPECT_TRUE(close_to(grads[i], numeric[i], 1e-8)) << "cotangent of floating-point input " << i;
    EXPECT_TRUE(close_to(again[i], grads[i], 0)) << "simplified cotangent " << i;
  }
}

}  // namespace espalier::test
