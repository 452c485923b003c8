// Comparing arrays of numbers in tests.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "espalier/base/host_array.h"

namespace espalier::test {

// Equal type and shape; floating elements within `tolerance` of (1 + their size), NaN and
// infinities at the same places; others equal.
inline testing::AssertionResult close_to(const HostArray& got, const HostArray& want,
                                         double tolerance) {
  if (got.dtype() != want.dtype() || got.dims() != want.dims()) {
    return testing::AssertionFailure()
           << "got " << hlo_name(got.dtype()) << to_string(got.dims()) << ", wanted "
           << hlo_name(want.dtype()) << to_string(want.dims());
  }
  const bool floating = is_floating(want.dtype());
  const HostArray a = got.converted(DType::kF64), b = want.converted(DType::kF64);
  for (size_t i = 0; i < a.as<double>().size(); ++i) {
    const double x = a.as<double>()[i], y = b.as<double>()[i];
    const bool same = x == y || (std::isnan(x) && std::isnan(y));
    if (same || (floating && std::abs(x - y) <= tolerance * (1 + std::abs(y)))) continue;
    return testing::AssertionFailure()
           << "element " << i << " of " << to_string(got.dims()) << ": got "
           << testing::PrintToString(x) << ", wanted " << testing::PrintToString(y);
  }
  return testing::AssertionSuccess();
}

}  // namespace espalier::test
