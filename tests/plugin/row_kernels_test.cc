// The kernels of layer norm and GELU: values and gradients beside the traced formulas in float64,
// and the code for each kind of processor.
#include <gtest/gtest.h>

#include <cmath>

#include "espalier/kernels/chosen.h"
#include "espalier/nn/layers.h"
#include "espalier/ops/op_list.h"
#include "espalier/runtime/program.h"
#include "espalier/transform/grad.h"
#include "espalier/transform/module.h"
#include "tests/support/attention_cases.h"
#include "tests/support/op_cases.h"

namespace espalier::test {
namespace {

using Layer = std::function<Tensor(const Tensors& in, const Ctx& cx)>;

// The layer's result and the gradients of its operands; the last parameter is the cotangent.
Function with_gradients(const std::vector<TensorType>& types, const Layer& layer,
                        const char* platform) {
  static const ParamSpecs kNone;
  const Ctx cx = Ctx(kNone, {}).on(std::make_shared<const Placement>(Placement{platform}));
  return trace(types, [&](const Tensors& in) {
    const Tensors operands(in.begin(), in.end() - 1);
    const Linearized linear = linearize({layer(operands, cx)}, operands);
    Tensors out = linear.pullback({in.back()});
    out.insert(out.begin(), linear.outputs[0]);
    return out;
  });
}

// By the kernel in float32, beside the traced formulas in float64.
void expect_equal(const std::vector<Dims>& dims, const Layer& layer, double tolerance,
                  const std::string& what) {
  const auto runtime = Runtime::create({}).value_or_throw();
  std::vector<TensorType> narrow, wide;
  for (const Dims& d : dims) {
    narrow.push_back({DType::kF32, d});
    wide.push_back({DType::kF64, d});
  }
  const auto in = random_arrays(narrow, -4, 4, what);
  std::vector<HostArray> exact;
  for (const HostArray& x : in) exact.push_back(x.converted(DType::kF64));
  const auto want = run_once(runtime, with_gradients(wide, layer, "cpu"), exact).value_or_throw();
  const Function by_kernel = with_gradients(narrow, layer, "cpu");
  const auto got = run_once(runtime, by_kernel, in).value_or_throw();
  for (size_t i = 0; i < want.size(); ++i) {
    EXPECT_LE(apart(got[i], want[i]), tolerance) << what << ", result " << i;
  }
}

TEST(LayerNormKernel, EqualsTheFormulas) {
  const Layer biased = [](const Tensors& in, const Ctx& cx) {
    return layer_norm(in[0], in[1], in[2], 1e-5, cx);
  };
  const Layer plain = [](const Tensors& in, const Ctx& cx) {
    return layer_norm(in[0], in[1], {}, 1e-5, cx);
  };
  for (const int64_t width : {128, 24, 7}) {
    const Dims x = {3, 67, width}, row = {width};
    expect_equal({x, row, row, x}, biased, 3e-6, "biased " + std::to_string(width));
    expect_equal({x, row, x}, plain, 3e-6, "plain " + std::to_string(width));
  }
}

TEST(GeluKernel, EqualsTheFormulas) {
  const Layer exact = [](const Tensors& in, const Ctx& cx) { return gelu(in[0], cx); };
  const Layer approximate = [](const Tensors& in, const Ctx& cx) { return gelu_tanh(in[0], cx); };
  for (const Dims& dims : {Dims{5, 129}, Dims{40000}}) {
    expect_equal({dims, dims}, exact, 1e-6, "exact");
    expect_equal({dims, dims}, approximate, 1e-6, "approximate");
  }
}

TEST(Kernels, AreUsedWhereThereAreSomeAndNowhereElse) {
  const std::vector<TensorType> f32 = {
      {DType::kF32, {4, 16}}, {DType::kF32, {16}}, {DType::kF32, {4, 16}}};
  const Layer layer = [](const Tensors& in, const Ctx& cx) {
    return gelu(layer_norm(in[0], in[1], {}, 1e-5, cx), cx);
  };
  const auto calls = [&](std::vector<TensorType> types, const char* platform, DType dtype) {
    for (TensorType& t : types) t.dtype = dtype;
    const std::string text = to_stablehlo(with_gradients(types, layer, platform), {});
    size_t count = 0;
    for (size_t at = text.find("custom_call"); at != std::string::npos;
         at = text.find("custom_call", at + 1)) {
      ++count;
    }
    return count;
  };
  EXPECT_EQ(calls(f32, "cpu", DType::kF32), 4u);
  EXPECT_EQ(calls(f32, "cpu", DType::kBF16), 0u);
  EXPECT_EQ(calls(f32, "tpu", DType::kF32), 0u);
  EXPECT_EQ(calls(f32, "", DType::kF32), 0u);
}

// Far out the activation is x or 0, its slope 1 or 0.
TEST(GeluKernel, HasItsLimitsFarOut) {
  const std::vector<float> x = {-1e6f, -1000, -30, -9, 9, 30, 1000, 1e6f}, ones(8, 1.0f);
  for (const auto& [name, heads, rows] : kernels::runnable()) {
    for (const bool tanh : {false, true}) {
      std::vector<float> y(8), slope(8);
      rows.gelu({x.data(), x.data(), y.data()}, tanh, 0, 8);
      rows.gelu_gradient({x.data(), ones.data(), slope.data()}, tanh, 0, 8);
      for (size_t i = 0; i < 8; ++i) {
        EXPECT_NEAR(y[i], x[i] > 0 ? x[i] : 0, 1e-6) << name << " " << x[i];
        EXPECT_NEAR(slope[i], x[i] > 0 ? 1 : 0, 1e-6) << name << " " << x[i];
      }
    }
  }
}

// The code for other processors than this one's best, where this one can run it.
TEST(RowKernels, AgreeBetweenProcessors) {
  const std::vector<kernels::Chosen> kinds = kernels::runnable();
  constexpr int64_t kRows = 9, kWidth = 37;
  const TensorType array{DType::kF32, {kRows, kWidth}}, row{DType::kF32, {kWidth}};
  const auto in = random_arrays({array, row, row, array}, -4, 4, "kinds");
  const auto at = [&](size_t i) { return in[i].as<float>().data(); };
  std::vector<std::vector<std::vector<float>>> made;  // of each kind
  for (const auto& [name, heads, rows] : kinds) {
    std::vector<std::vector<float>> out(9, std::vector<float>(kRows * kWidth));
    const auto to = [&](size_t i) { return out[i].data(); };
    rows.norm({kWidth, 1e-5f, at(0), at(1), at(2), to(0), to(1), to(2)}, 0, kRows);
    rows.norm_gradient({kWidth, at(0), at(1), to(1), to(2), at(3), to(3)}, 0, kRows, to(4), to(5));
    rows.gelu({at(0), at(0), to(6)}, false, 3, kRows * kWidth);
    rows.gelu_gradient({at(0), at(3), to(7)}, true, 0, kRows * kWidth);
    rows.gelu_gradient({at(0), at(3), to(8)}, false, 0, kRows * kWidth);
    made.push_back(std::move(out));
  }
  for (size_t kind = 1; kind < made.size(); ++kind) {
    for (size_t i = 0; i < 9; ++i) {
      for (size_t j = 0; j < made[0][i].size(); ++j) {
        EXPECT_NEAR(made[kind][i][j], made[0][i][j], 1e-5)
            << kinds[kind].name << " " << i << " " << j;
      }
    }
  }
  EXPECT_EQ(made[0][6][2], 0) << "before the first element";
  const double x = at(0)[20];
  EXPECT_NEAR(made[0][6][20], 0.5 * x * (1 + std::erf(x / std::sqrt(2.0))), 1e-6);
}

}  // namespace
}  // namespace espalier::test
