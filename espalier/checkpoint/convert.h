// Element types of published weights, converted into float32.
#pragma once

#include <cstddef>
#include <span>

#include "espalier/base/dtype.h"

namespace espalier {

// `from` is f16, bf16, f32 or f64; `in` holds as many elements as `out`, aligned to them. f16 and
// bf16 (NaNs and subnormal numbers too) convert exactly; f64 to the nearest float32, ties to even,
// and to infinity beyond its range.
void f32_from(DType from, std::span<const std::byte> in, std::span<float> out);

}  // namespace espalier
