// Attention of one head of keys and the heads of queries that read it: the inner part of the
// kernels, compiled once for each kind of processor. B batch, T positions, H heads of queries, G
// heads of keys and values, K width of a head.
#pragma once

#include <cstddef>
#include <cstdint>

namespace espalier::kernels {

inline constexpr int64_t kBlock = 32;  // queries at a time

struct HeadShape {
  int64_t batch, length, heads, key_heads, width;
  // Floats from a position to the next: of q, and of k and v; likewise of their gradients. The
  // heads of a position lie one after another.
  int64_t q_row, k_row;
};

// Floats of scratch, zero at the start, that a task needs.
int64_t forward_scratch(const HeadShape& s);
int64_t backward_scratch(const HeadShape& s);

// Arrays as ops/kernel_calls.h describes them.
struct ForwardArrays {
  HeadShape s;
  const float *q, *k, *v;
  float *o, *log_sum;
};
struct BackwardArrays {
  HeadShape s;
  const float *q, *k, *v, *o, *log_sum, *d_o;
  float *d_q, *d_k, *d_v;
};

// Task b * G + g: batch row b, key head g.
struct HeadKernels {
  void (*forward)(const ForwardArrays& arrays, int64_t task, float* scratch);
  void (*backward)(const BackwardArrays& arrays, int64_t task, float* scratch);
};
HeadKernels avx512_heads();
HeadKernels avx2_heads();
HeadKernels baseline_heads();

}  // namespace espalier::kernels
