// Layers on the oracle in float64: values against plain loops, gradients against differences.
#include "espalier/nn/attention.h"
#include "espalier/nn/layers.h"

#include <gtest/gtest.h>

#include <cmath>

#include "espalier/nn/stack.h"
#include "espalier/ops/op_list.h"
#include "espalier/random/random.h"
#include "espalier/transform/grad.h"
#include "tests/support/compare.h"
#include "tests/support/derivatives.h"
#include "tests/support/op_cases.h"
#include "tests/support/oracle.h"
#include "tests/unit/nn_testing.h"

namespace espalier::test {
namespace {

TEST(LayerNorm, Value) {
  const auto in = random_arrays({kRows, kWidth, kWidth}, -1, 1, "norm");
  const HostArray got = value_of(
      {kRows, kWidth, kWidth},
      [](const Tensors& t) { return Tensors{layer_norm(t[0], t[1], t[2], 1e-3)}; }, in);
  HostArray want(DType::kF64, kRows.dims);
  for (size_t row = 0; row < kB * kT; ++row) {
    const auto x = in[0].as<double>().subspan(row * kD, kD);
    double mean = 0, variance = 0;
    for (const double v : x) mean += v / kD;
    for (const double v : x) variance += (v - mean) * (v - mean) / kD;
    for (size_t i = 0; i < kD; ++i) {
      want.as<double>()[row * kD + i] =
          (x[i] - mean) / std::sqrt(variance + 1e-3) * in[1].as<double>()[i] +
          in[2].as<double>()[i];
    }
  }
  EXPECT_TRUE(close_to(got, want, 1e-12));
}

TEST(LayerNorm, Gradient) {
  expect_gradient({kRows, kWidth, kWidth},
                  [](const Tensors& t) { return Tensors{layer_norm(t[0], t[1], t[2], 1e-3)}; });
}

TEST(CausalAttention, Value) {
  const auto in = random_arrays({kHeads, kHeads, kHeads}, -1, 1, "attention");
  const HostArray got = value_of(
      {kHeads, kHeads, kHeads},
      [](const Tensors& t) { return Tensors{causal_attention(t[0], t[1], t[2])}; }, in);
  HostArray want(DType::kF64, kHeads.dims);
  const auto at = [](size_t b, size_t t, size_t h, size_t k) {
    return ((b * kT + t) * kH + h) * kK + k;
  };
  const auto q = in[0].as<double>(), k = in[1].as<double>(), v = in[2].as<double>();
  for (size_t b = 0; b < kB; ++b) {
    for (size_t h = 0; h < kH; ++h) {
      for (size_t t = 0; t < kT; ++t) {
        std::vector<double> weight(t + 1);  // positions after t are not seen
        double sum = 0;
        for (size_t s = 0; s <= t; ++s) {
          double score = 0;
          for (size_t i = 0; i < kK; ++i) score += q[at(b, t, h, i)] * k[at(b, s, h, i)];
          sum += weight[s] = std::exp(score / std::sqrt(static_cast<double>(kK)));
        }
        for (size_t i = 0; i < kK; ++i) {
          double& o = want.as<double>()[at(b, t, h, i)];
          for (size_t s = 0; s <= t; ++s) o += weight[s] / sum * v[at(b, s, h, i)];
        }
      }
    }
  }
  EXPECT_TRUE(close_to(got, want, 1e-12));
}

TEST(CausalAttention, Gradient) {
  expect_gradient({kHeads, kHeads, kHeads},
                  [](const Tensors& t) { return Tensors{causal_attention(t[0], t[1], t[2])}; });
}

TEST(CausalAttention, ShapesMustAgree) {
  try {
    trace({kHeads, kRows},
          [](const Tensors& t) { return Tensors{causal_attention(t[0], t[0], t[1])}; });
    ADD_FAILURE() << "taken";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("causal_attention"), std::string::npos);
  }
}

TEST(Relu, ValueAndGradientWithZeroAtZero) {
  const TensorType type{DType::kF64, {4}};
  const Function function = trace({type}, [](const Tensors& in) {
    const ValueAndGrad vg = value_and_grad(reduce_sum(relu(in[0])), in, {relu(in[0])});
    return Tensors{vg.aux[0], vg.grads[0]};
  });
  const auto out = evaluate(function, {HostArray::from<double>({4}, {-1, 0, 0.5, 2})});
  EXPECT_TRUE(close_to(out[0], HostArray::from<double>({4}, {0, 0, 0.5, 2}), 0));
  EXPECT_TRUE(close_to(out[1], HostArray::from<double>({4}, {0, 0, 1, 1}), 0));
}

// Against the formulas, far enough out that both tails are seen.
TEST(Gelu, ValueAndGradient) {
  const TensorType type{DType::kF64, {6}};
  const std::vector<double> x = {-6, -1.5, -0.1, 0, 0.7, 5};
  const auto exact = [](double v) { return 0.5 * v * (1 + std::erf(v / std::sqrt(2.0))); };
  const auto by_tanh = [](double v) {
    return 0.5 * v * (1 + std::tanh(std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v)));
  };
  const HostArray in = HostArray::from<double>({6}, x);
  const HostArray got =
      evaluate(trace({type}, [](const Tensors& t) { return Tensors{gelu(t[0])}; }), {in})[0];
  const HostArray tanh_got =
      evaluate(trace({type}, [](const Tensors& t) { return Tensors{gelu_tanh(t[0])}; }), {in})[0];
  for (size_t i = 0; i < x.size(); ++i) {
    EXPECT_NEAR(got.as<double>()[i], exact(x[i]), 1e-12);
    EXPECT_NEAR(tanh_got.as<double>()[i], by_tanh(x[i]), 1e-12);
  }
  expect_gradient({type}, [](const Tensors& t) { return Tensors{gelu(t[0])}; });
  expect_gradient({type}, [](const Tensors& t) { return Tensors{gelu_tanh(t[0])}; });
}

TEST(LayerNorm, WithoutBias) {
  const TensorType width{DType::kF64, {static_cast<int64_t>(kD)}};
  const auto in = random_arrays({kRows, width}, -1, 1, "plain norm");
  const Function both = trace({kRows, width}, [&](const Tensors& t) {
    return Tensors{layer_norm(t[0], t[1], Tensor(), 1e-3),
                   layer_norm(t[0], t[1], zeros(width), 1e-3)};
  });
  const auto out = evaluate(both, in);
  EXPECT_TRUE(close_to(out[0], out[1], 0));
  expect_gradient({kRows, width},
                  [](const Tensors& t) { return Tensors{layer_norm(t[0], t[1], Tensor(), 1e-3)}; });
}

TEST(RmsNorm, ValueAndGradient) {
  const auto in = random_arrays({kRows, kWidth}, -1, 1, "rms norm");
  const Build build = [](const Tensors& t) { return Tensors{rms_norm(t[0], t[1], 1e-3)}; };
  const HostArray got = value_of({kRows, kWidth}, build, in);
  HostArray want(DType::kF64, kRows.dims);
  for (size_t row = 0; row < kB * kT; ++row) {
    const auto x = in[0].as<double>().subspan(row * kD, kD);
    double square = 0;
    for (const double v : x) square += v * v / kD;
    for (size_t i = 0; i < kD; ++i) {
      want.as<double>()[row * kD + i] = x[i] / std::sqrt(square + 1e-3) * in[1].as<double>()[i];
    }
  }
  EXPECT_TRUE(close_to(got, want, 1e-12));
  expect_gradient({kRows, kWidth}, build);
}

TEST(Swiglu, ValueAndGradient) {
  const auto in = random_arrays({kRows, kRows}, -4, 4, "swiglu");
  const Build build = [](const Tensors& t) { return Tensors{swiglu(t[0], t[1])}; };
  const HostArray got = value_of({kRows, kRows}, build, in);
  for (size_t i = 0; i < got.as<double>().size(); ++i) {
    const double gate = in[0].as<double>()[i], up = in[1].as<double>()[i];
    EXPECT_NEAR(got.as<double>()[i], gate / (1 + std::exp(-gate)) * up, 1e-12);
  }
  expect_gradient({kRows, kRows}, build);
}

// Of bfloat16 operands the sums are float32 and the results bfloat16.
TEST(RmsNorm, ComputesInFloat32) {
  const TensorType rows{DType::kBF16, {2, 256}}, width{DType::kBF16, {256}};
  const auto in = random_arrays({{DType::kF64, {2, 256}}, {DType::kF64, {256}}}, 1, 2, "wide norm");
  const std::vector<HostArray> half = {in[0].converted(DType::kBF16),
                                       in[1].converted(DType::kBF16)};
  const HostArray got = value_of(
      {rows, width}, [](const Tensors& t) { return Tensors{rms_norm(t[0], t[1], 1e-5)}; }, half);
  const HostArray want =
      value_of({{DType::kF64, {2, 256}}, {DType::kF64, {256}}},
               [](const Tensors& t) { return Tensors{rms_norm(t[0], t[1], 1e-5)}; },
               {half[0].converted(DType::kF64), half[1].converted(DType::kF64)});
  ASSERT_EQ(got.dtype(), DType::kBF16);
  // One rounding to 8 bits; sums in bfloat16 would be percents away.
  EXPECT_TRUE(close_to(got.converted(DType::kF64), want, 0.006));
}

// A block that shows its masks: x, then two dropouts after a scale of its own.
struct Block {
  Param scale;
  explicit Block(Init in) : scale(in.param("scale", {1}, ones_init(), {""})) {}
  Tensor operator()(const Tensor& x, const Ctx& cx) const {
    const Tensor y = cx.dropout(x, 0.25) * broadcast_to(cx[scale], x.dims());
    return cx.dropout(y, 0.25);
  }
};

std::vector<HostArray> masks(Layers how, int64_t layers, uint64_t seed, bool training) {
  ParamSpecs specs;
  const Stack<Block> stack(Init(specs) / "blocks", how, layers);
  const TensorType type{DType::kF32, {16, 64}};
  const Function function = trace({type}, [&](const Tensors& in) {
    Tensors arrays;
    for (const ParamSpec& spec : specs) arrays.push_back(full({DType::kF32, spec.array_dims()}, 1));
    const Ctx cx(specs, arrays);
    return Tensors{stack(in[0], training ? cx.training(random::key(seed)) : cx)};
  });
  HostArray ones(DType::kF32, type.dims);
  for (float& x : ones.as<float>()) x = 1;
  return evaluate(function, {ones});
}

TEST(Dropout, MasksAreThoseOfTheOtherWayOfRepeating) {
  const auto scan = masks(Layers::kScan, 2, 5, true)[0],
             unroll = masks(Layers::kUnroll, 2, 5, true)[0];
  EXPECT_TRUE(close_to(scan, unroll, 0));
  EXPECT_FALSE(close_to(scan, masks(Layers::kScan, 2, 6, true)[0], 0));
  // Four draws of their own: 0.75^4 of the elements are left, scaled to keep the mean.
  double kept = 0, sum = 0;
  for (const float x : scan.as<float>()) {
    kept += x != 0;
    sum += x;
  }
  EXPECT_NEAR(kept / 1024, std::pow(0.75, 4), 0.05);
  EXPECT_NEAR(sum / 1024, 1, 0.16);
}

TEST(Dropout, NoneOutsideOfTraining) {
  const HostArray ones = masks(Layers::kScan, 2, 5, false)[0];
  for (const float x : ones.as<float>()) EXPECT_EQ(x, 1);
}

}  // namespace
}  // namespace espalier::test
