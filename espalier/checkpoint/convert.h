// Element types of weights, converted into one that parameters may have.
#pragma once

#include <cstddef>
#include <span>

#include "espalier/base/dtype.h"

namespace espalier {

// `from` is f16, bf16, f32 or f64; `in` holds as many elements as `out`, aligned to them. f16 and
// bf16 (NaNs and subnormal numbers too) convert exactly; f64 to the nearest float32, ties to even,
// and to infinity beyond its range.
void f32_from(DType from, std::span<const std::byte> in, std::span<float> out);

// The same into f32, or through it into bf16 (to the nearest, ties to even; a NaN stays one). `out`
// is aligned to `to`. Throws Error where `to` is another type.
void convert_floats(DType from, std::span<const std::byte> in, DType to, std::span<std::byte> out);

}  // namespace espalier
