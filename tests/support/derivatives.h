// Derivatives of functions, by the transformation and by numeric differences, on the oracle.
#pragma once

#include <functional>
#include <vector>

#include "espalier/base/host_array.h"
#include "espalier/ir/function.h"

namespace espalier::test {

// A function of (the function's parameters, one cotangent per floating-point result) that returns
// the cotangents of its floating-point parameters, zeros where there is no dependence.
Function pullback_of(const Function& function);

// The same cotangents by central differences on the oracle: for each element x the derivative of
// sum(cotangent * result) from x + h and x - h with h = 6e-6 (1 + |x|). With float64, h near the
// cube root of the rounding unit balances the error of the difference quotient, h^2 f''' / 6, with
// that of rounding, 1e-16 |f| / h: both are about 1e-11 for functions of size 1.
std::vector<HostArray> numeric_cotangents(const Function& function,
                                          const std::vector<HostArray>& arguments,
                                          const std::vector<HostArray>& cotangents);

// Traces `build` on these inputs (in float64, between low and high) and holds the cotangents of its
// floating-point inputs, before and after simplification, against numeric ones.
void expect_gradient(const std::vector<TensorType>& inputs,
                     const std::function<Tensors(const Tensors&)>& build, double low = -1,
                     double high = 1);

// Types of the floating-point results.
std::vector<TensorType> cotangent_types(const Function& function);

}  // namespace espalier::test
