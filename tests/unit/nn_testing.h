// What tests of layers on the oracle share: small shapes in float64, and evaluating a build.
#pragma once

#include <functional>

#include "espalier/ir/function.h"
#include "tests/support/oracle.h"

namespace espalier::test {

using Build = std::function<Tensors(const Tensors&)>;
inline constexpr int64_t kB = 2, kT = 4, kD = 3, kH = 2, kK = 3, kV = 5;
inline const TensorType kRows{DType::kF64, {kB, kT, kD}}, kWidth{DType::kF64, {kD}};
inline const TensorType kHeads{DType::kF64, {kB, kT, kH, kK}};
inline const TensorType kWeight{DType::kF64, {kD, kV}}, kBias{DType::kF64, {kV}};

inline HostArray value_of(const std::vector<TensorType>& types, const Build& build,
                          const std::vector<HostArray>& arguments) {
  return evaluate(trace(types, build), arguments)[0];
}

}  // namespace espalier::test
