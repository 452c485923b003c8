// Small dense arithmetic on vectors of 16 floats, for kernels. All of it is inlined into files that
// are compiled once for each kind of processor; on those without 512-bit registers a vector takes
// several.
#pragma once

#include <cstdint>

#define ESPALIER_INLINE inline __attribute__((always_inline))

namespace espalier::kernels {

inline constexpr int64_t kLanes = 16;
using Floats = float __attribute__((vector_size(64)));
using Ints = int32_t __attribute__((vector_size(64)));
using LooseFloats = float __attribute__((vector_size(64), aligned(4), may_alias));

ESPALIER_INLINE constexpr int64_t round_up(int64_t n) { return (n + kLanes - 1) / kLanes * kLanes; }

ESPALIER_INLINE Floats load(const float* from) {
  return *reinterpret_cast<const LooseFloats*>(from);
}
ESPALIER_INLINE void store(float* to, const Floats& x) { *reinterpret_cast<LooseFloats*>(to) = x; }
ESPALIER_INLINE Floats all(float x) { return x - Floats{}; }
ESPALIER_INLINE Ints lane_numbers() {
  return Ints{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
}

ESPALIER_INLINE float sum_lanes(const Floats& x) {
  float out = 0;
  for (int i = 0; i < kLanes; ++i) out += x[i];
  return out;
}
ESPALIER_INLINE float max_lanes(const Floats& x) {
  float out = x[0];
  for (int i = 1; i < kLanes; ++i) out = x[i] > out ? x[i] : out;
  return out;
}

// e^x for x <= 88, within 2 units in the last place; 0 below -87.3, NaN for NaN. Cody and Waite's
// reduction to |r| <= ln(2) / 2 and a polynomial with the coefficients of Cephes' expf (Moshier).
ESPALIER_INLINE Floats exp16(const Floats& x) {
  const Floats kRound = all(12582912.0f);  // 1.5 * 2^23: adding it rounds to an integer
  const Floats n = (x * 1.44269504f + kRound) - kRound;
  const Floats r = (x - n * 0.693359375f) - n * -2.12194440e-4f;
  Floats p = all(1.9875691500e-4f);
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.0f;
  const Ints exponent = (__builtin_convertvector(n, Ints) + 127) << 23;
  const Floats y = p * __builtin_bit_cast(Floats, exponent);
  return x < -87.3f ? Floats{} : y;
}

// A matrix whose element (i, k) is at[i * row + k * column].
struct Strided {
  const float* at;
  int64_t row, column;
};

// The rows [0, kRows) and columns [0, 16 * kColumns) of c (+)= a b over `depth`.
template <int kRows, int kColumns, bool kAdd>
ESPALIER_INLINE void multiply_tile(const Strided& a, const float* b, int64_t b_row, float* c,
                                   int64_t c_row, int64_t depth) {
  Floats sum[kRows][kColumns] = {};
  for (int64_t k = 0; k < depth; ++k) {
    Floats right[kColumns];
#pragma GCC unroll 8
    for (int j = 0; j < kColumns; ++j) right[j] = load(b + k * b_row + j * kLanes);
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) {
      const Floats left = all(a.at[i * a.row + k * a.column]);
#pragma GCC unroll 8
      for (int j = 0; j < kColumns; ++j) sum[i][j] += left * right[j];
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 8
    for (int j = 0; j < kColumns; ++j) {
      float* to = c + i * c_row + j * kLanes;
      store(to, kAdd ? load(to) + sum[i][j] : sum[i][j]);
    }
  }
}

template <int kColumns, bool kAdd>
ESPALIER_INLINE void multiply_panel(Strided a, const float* b, int64_t b_row, float* c,
                                    int64_t c_row, int64_t rows, int64_t depth) {
  constexpr int kMost = 8;
  int64_t i = 0;
  for (; i + kMost <= rows; i += kMost) {
    multiply_tile<kMost, kColumns, kAdd>({a.at + i * a.row, a.row, a.column}, b, b_row,
                                         c + i * c_row, c_row, depth);
  }
  for (; i < rows; ++i) {
    multiply_tile<1, kColumns, kAdd>({a.at + i * a.row, a.row, a.column}, b, b_row, c + i * c_row,
                                     c_row, depth);
  }
}

// c (rows, columns) = a (rows, depth) b (depth, columns), or added to c. `columns` is a multiple of
// 16; rows of b and c are b_row and c_row floats apart.
template <bool kAdd = false>
ESPALIER_INLINE void multiply(const Strided& a, const float* b, int64_t b_row, float* c,
                              int64_t c_row, int64_t rows, int64_t columns, int64_t depth) {
  int64_t j = 0;
  for (; j + 2 * kLanes <= columns; j += 2 * kLanes) {
    multiply_panel<2, kAdd>(a, b + j, b_row, c + j, c_row, rows, depth);
  }
  if (j < columns) multiply_panel<1, kAdd>(a, b + j, b_row, c + j, c_row, rows, depth);
}

}  // namespace espalier::kernels
