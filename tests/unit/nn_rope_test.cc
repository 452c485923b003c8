// Rotary position embedding on the oracle: values against plain loops and complex products, what a
// rotation keeps, the scaled frequencies of Llama 3.1, the gradient.
#include "espalier/nn/rope.h"

#include <gtest/gtest.h>

#include <cmath>
#include <complex>

#include "espalier/ops/op_list.h"
#include "tests/support/compare.h"
#include "tests/support/derivatives.h"
#include "tests/support/error_of.h"
#include "tests/support/op_cases.h"
#include "tests/support/oracle.h"

namespace espalier::test {
namespace {

constexpr int64_t kB = 2, kT = 3, kH = 2, kK = 6;
const TensorType kX{DType::kF64, {kB, kT, kH, kK}}, kPositions{DType::kS32, {kT}};
const std::vector<int32_t> kPlaces = {0, 5, 131};

HostArray run(const HostArray& x, const std::vector<int32_t>& places, const RopeOptions& options) {
  const Function f = trace({{x.dtype(), x.dims()}, kPositions},
                           [&](const Tensors& in) { return Tensors{rope(in[0], in[1], options)}; });
  return evaluate(f, {x, HostArray::from<int32_t>({kT}, places)})[0];
}

// Each pair as a complex number, times e^(i angle).
HostArray naive(const HostArray& x, const std::vector<int32_t>& places, double theta,
                RopePairs pairs) {
  HostArray out(DType::kF64, x.dims());
  for (size_t row = 0; row < kB * kT * kH; ++row) {
    const double place = places[row / kH % kT];
    for (size_t i = 0; i < kK / 2; ++i) {
      const bool halves = pairs == RopePairs::kHalves;
      const size_t a = row * kK + (halves ? i : 2 * i);
      const size_t b = row * kK + (halves ? i + kK / 2 : 2 * i + 1);
      const double angle = place / std::pow(theta, 2.0 * static_cast<double>(i) / kK);
      const auto turned =
          std::complex<double>(x.as<double>()[a], x.as<double>()[b]) * std::polar(1.0, angle);
      out.as<double>()[a] = turned.real();
      out.as<double>()[b] = turned.imag();
    }
  }
  return out;
}

TEST(Rope, IsARotationOfPairs) {
  const HostArray x = random_arrays({kX}, -1, 1, "rope")[0];
  for (const RopePairs pairs : {RopePairs::kHalves, RopePairs::kInterleaved}) {
    for (const double theta : {10000.0, 500000.0}) {
      const HostArray got = run(x, kPlaces, {.theta = theta, .pairs = pairs});
      EXPECT_TRUE(close_to(got, naive(x, kPlaces, theta, pairs), 1e-12));
    }
  }
}

TEST(Rope, KeepsLengthsAndPlaceZero) {
  const HostArray x = random_arrays({kX}, -1, 1, "rope")[0], y = run(x, kPlaces, {});
  for (size_t row = 0; row < kB * kT * kH; ++row) {
    double before = 0, after = 0;
    for (size_t i = 0; i < kK; ++i) {
      before += std::pow(x.as<double>()[row * kK + i], 2);
      after += std::pow(y.as<double>()[row * kK + i], 2);
    }
    EXPECT_NEAR(after, before, 1e-12);
    if (row / kH % kT != 0) continue;
    for (size_t i = row * kK; i < (row + 1) * kK; ++i) {
      EXPECT_EQ(y.as<double>()[i], x.as<double>()[i]);
    }
  }
}

// The product of a query and a key depends on how far apart they are, not on where.
TEST(Rope, ProductsDependOnTheDistance) {
  const auto in = random_arrays({kX, kX}, -1, 1, "distance");
  for (const RopePairs pairs : {RopePairs::kHalves, RopePairs::kInterleaved}) {
    const auto product = [&](int32_t query, int32_t key) {
      const HostArray q = run(in[0], {query, 0, 0}, {.pairs = pairs}),
                      k = run(in[1], {key, 0, 0}, {.pairs = pairs});
      double sum = 0;
      for (size_t i = 0; i < kK; ++i) sum += q.as<double>()[i] * k.as<double>()[i];
      return sum;
    };
    EXPECT_NEAR(product(7, 3), product(104, 100), 1e-12);
    EXPECT_GT(std::abs(product(7, 3) - product(7, 4)), 1e-3);
  }
}

TEST(Rope, Gradient) {
  for (const RopePairs pairs : {RopePairs::kHalves, RopePairs::kInterleaved}) {
    expect_gradient({kX}, [&](const Tensors& in) {
      const Tensor y = rope(in[0], constant(HostArray::from<int32_t>({kT}, kPlaces)),
                            {.pairs = pairs, .scaling = Llama3Scaling{}});
      return Tensors{y * y * y};
    });
  }
}

// An angle of 1001 in bfloat16 would be 1000; in float32 the result is right to bfloat16's own
// rounding.
TEST(Rope, AnglesOfBfloat16AreFloat32) {
  const std::vector<int32_t> places = {1001, 333, 7};
  const HostArray x = random_arrays({kX}, -1, 1, "bf16")[0].converted(DType::kBF16);
  const HostArray got = run(x, places, {});
  EXPECT_EQ(got.dtype(), DType::kBF16);
  const HostArray want = naive(x.converted(DType::kF64), places, 10000, RopePairs::kHalves);
  EXPECT_TRUE(close_to(got.converted(DType::kF64), want, 5e-3));
}

// By Hugging Face transformers' _compute_llama3_parameters with head_dim 16, rope_theta 500000,
// factor 8, low_freq_factor 1, high_freq_factor 4, original_max_position_embeddings 8192.
TEST(Rope, Llama3FrequenciesAreTransformers) {
  const std::vector<double> want = {1,
                                    0.193922758,
                                    0.0376060307,
                                    0.00729266508,
                                    0.000524846022,
                                    3.42810235e-05,
                                    6.64786967e-06,
                                    1.28917316e-06};
  const auto got = rope_frequencies(16, {.theta = 500000, .scaling = Llama3Scaling{}});
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i] / want[i], 1, 1e-6) << i;
}

TEST(Rope, WrongUseIsRefused) {
  const auto refusal = [](const TensorType& x, const TensorType& at, const RopeOptions& options) {
    return error_of([&] {
      trace({x, at}, [&](const Tensors& in) { return Tensors{rope(in[0], in[1], options)}; });
    });
  };
  const TensorType odd{DType::kF32, {1, kT, 1, 5}};
  EXPECT_NE(refusal(odd, kPositions, {}).find("an even width, got 5"), std::string::npos);
  EXPECT_NE(refusal(kX, {DType::kS32, {kT + 1}}, {}).find("i32 positions (T)"), std::string::npos);
  EXPECT_NE(refusal(kX, kPositions, {.theta = 0}).find("theta above 0"), std::string::npos);
  EXPECT_NE(refusal(kX, kPositions, {.scaling = Llama3Scaling{8, 4, 4, 8192}})
                .find("low_freq_factor < high_freq_factor"),
            std::string::npos);
}

}  // namespace
}  // namespace espalier::test
