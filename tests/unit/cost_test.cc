// matmul_flops: what counts, and how often.
#include <gtest/gtest.h>

#include "espalier/nn/attention.h"
#include "espalier/ops/control.h"
#include "espalier/ops/dot.h"
#include "espalier/ops/kernel_calls.h"
#include "espalier/ops/reduce.h"
#include "espalier/transform/cost.h"
#include "espalier/transform/grad.h"

namespace espalier {
namespace {

TEST(MatmulFlops, CountsALoopsBodyAsOftenAsItRuns) {
  const TensorType square{DType::kF32, {8, 8}};
  const auto flops = [&](int64_t length) {
    return matmul_flops(trace({square, square}, [&](const Tensors& in) {
      const auto body = [&](const Tensors& carry, const Tensors&) {
        return ScanResult{{matmul(carry[0], in[1])}, {}};
      };
      return scan(body, {in[0]}, {}, length).carry;
    }));
  };
  EXPECT_EQ(flops(1), 2 * 8 * 8 * 8);
  EXPECT_EQ(flops(5), 5 * 2 * 8 * 8 * 8);
}

// Kernels of attention, on CPUs and cuDNN's, separate and packed: two products forward, five
// backward, of T (T + 1) / 2 pairs in each of B H heads.
TEST(MatmulFlops, CountsKernelsOfAttention) {
  constexpr int64_t kB = 2, kT = 6, kH = 4, kG = 2, kK = 8;
  constexpr double kProduct = 2.0 * kB * kH * kK * kT * (kT + 1) / 2;
  const auto counted = [&](const char* platform, DType dtype, bool packed, bool gradient) {
    const auto placement = std::make_shared<const Placement>(Placement{platform, {}, {}});
    const TensorType q{dtype, {kB, kT, kH, kK}}, kv{dtype, {kB, kT, kG, kK}},
        qkv{dtype, {kB, kT, 3, kH, kK}};
    const std::vector<TensorType> types =
        packed ? std::vector<TensorType>{qkv} : std::vector<TensorType>{q, kv, kv};
    return matmul_flops(trace(types, [&](const Tensors& in) {
      static const ParamSpecs kNone;
      const Ctx cx = Ctx(kNone, {}).on(placement);
      const Tensor o =
          packed ? packed_fused_attention(in[0], cx) : fused_attention(in[0], in[1], in[2], cx);
      return gradient ? value_and_grad(reduce_sum(o), in).grads : Tensors{o};
    }));
  };
  EXPECT_EQ(counted("cpu", DType::kF32, false, false), 2 * kProduct);
  EXPECT_EQ(counted("cpu", DType::kF32, false, true), 7 * kProduct);
  EXPECT_EQ(counted("cpu", DType::kF32, true, false), 2 * kProduct);
  EXPECT_EQ(counted("cpu", DType::kF32, true, true), 7 * kProduct);
  EXPECT_EQ(counted("cuda", DType::kBF16, false, false), 2 * kProduct);
  EXPECT_EQ(counted("cuda", DType::kBF16, false, true), 7 * kProduct);
}

}  // namespace
}  // namespace espalier
