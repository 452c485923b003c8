// The options of linear_cross_entropy against the loss as it is written down, in double precision:
// parts of the sequence, z_loss, targets that count for nothing, and the gradients of all.
#include <gtest/gtest.h>

#include <cmath>

#include "espalier/base/locate.h"
#include "espalier/nn/loss.h"
#include "espalier/runtime/program.h"
#include "espalier/transform/grad.h"
#include "tests/support/op_cases.h"

namespace espalier {
namespace {

constexpr int64_t kB = 2, kT = 6, kD = 5, kV = 7;

struct Values {
  double sum = 0, count = 0;
  std::vector<double> dx, dw, db;
};

// x (B, T, D), w (D, V), b (V), targets (B, T).
Values naive(std::span<const float> x, std::span<const float> w, std::span<const float> b,
             std::span<const int32_t> targets, const LossOptions& options) {
  Values out;
  out.dx.resize(kB * kT * kD);
  out.dw.resize(kD * kV);
  out.db.resize(kV);
  for (size_t p = 0; p < kB * kT; ++p) {
    if (options.ignore_id && targets[p] == *options.ignore_id) continue;
    out.count += 1;
    double z[kV], total = 0;
    for (size_t v = 0; v < kV; ++v) {
      z[v] = b[v];
      for (size_t d = 0; d < kD; ++d) z[v] += double{x[p * kD + d]} * w[d * kV + v];
      total += std::exp(z[v]);
    }
    const double log_sum = std::log(total);
    out.sum += options.z_loss * log_sum * log_sum + log_sum;
    if (targets[p] >= 0) out.sum -= z[targets[p]];
    for (size_t v = 0; v < kV; ++v) {
      const double q = std::exp(z[v] - log_sum);
      const double hit = static_cast<int32_t>(v) == targets[p] ? 1 : 0;
      const double dz = q - hit + 2 * options.z_loss * log_sum * q;
      out.db[v] += dz;
      for (size_t d = 0; d < kD; ++d) {
        out.dx[p * kD + d] += dz * w[d * kV + v];
        out.dw[d * kV + v] += dz * x[p * kD + d];
      }
    }
  }
  return out;
}

struct Case {
  std::string label;
  LossOptions options;
  bool vocab_first = false, bias = true;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.label; }

class LossOptionsTest : public testing::TestWithParam<Case> {};

std::vector<float> numbers(size_t count, double step) {
  std::vector<float> out(count);
  for (size_t i = 0; i < count; ++i) {
    out[i] = static_cast<float>(2 * std::sin(step * static_cast<double>(i + 1)));
  }
  return out;
}

void expect_near(const HostArray& got, const std::vector<double>& want, const char* what) {
  const auto values = got.as<float>();
  ASSERT_EQ(values.size(), want.size()) << what;
  for (size_t i = 0; i < want.size(); ++i) {
    EXPECT_NEAR(values[i], want[i], 1e-5 * (1 + std::abs(want[i]))) << what << " " << i;
  }
}

TEST_P(LossOptionsTest, EqualsTheFormula) {
  const auto plugin = plugin_path("cpu");
  if (!plugin) GTEST_SKIP() << plugin.failure().message;
  const Case& c = GetParam();
  const std::vector<float> x = numbers(kB * kT * kD, 0.7), w = numbers(kD * kV, 1.3);
  const std::vector<float> b = c.bias ? numbers(kV, 2.1) : std::vector<float>(kV, 0.0f);
  std::vector<int32_t> targets;
  for (int32_t p = 0; p < kB * kT; ++p) targets.push_back(p * p % kV);
  if (c.options.ignore_id) targets[1] = targets[8] = static_cast<int32_t>(*c.options.ignore_id);

  std::vector<float> stored = w;
  if (c.vocab_first) {
    for (size_t d = 0; d < kD; ++d) {
      for (size_t v = 0; v < kV; ++v) stored[v * kD + d] = w[d * kV + v];
    }
  }
  const Dims weight_dims = c.vocab_first ? Dims{kV, kD} : Dims{kD, kV};
  const std::vector<TensorType> types = {{DType::kF32, {kB, kT, kD}},
                                         {DType::kF32, weight_dims},
                                         {DType::kF32, {kV}},
                                         {DType::kS32, {kB, kT}}};
  const Function function = trace(types, [&](const Tensors& in) {
    const OutputLayer layer{in[1], c.bias ? in[2] : Tensor(), c.vocab_first};
    const LossSum loss = linear_cross_entropy(in[0], layer, in[3], c.options);
    const ValueAndGrad vg = value_and_grad(loss.sum, {in[0], in[1], in[2]}, {loss.count});
    return Tensors{vg.value, vg.aux[0], vg.grads[0], vg.grads[1], vg.grads[2]};
  });
  const auto runtime = Runtime::create({}).value_or_throw();
  const std::vector<HostArray> got =
      run_once(
          runtime, function,
          {HostArray::from<float>({kB, kT, kD}, x), HostArray::from<float>(weight_dims, stored),
           HostArray::from<float>({kV}, b), HostArray::from<int32_t>({kB, kT}, targets)})
          .value_or_throw();

  const Values want = naive(x, w, b, targets, c.options);
  expect_near(got[0], {want.sum}, "sum");
  expect_near(got[1], {want.count}, "count");
  EXPECT_EQ(want.count < kB * kT, c.options.ignore_id.has_value());
  expect_near(got[2], want.dx, "gradient of x");
  std::vector<double> dw = want.dw;
  if (c.vocab_first) {
    for (size_t d = 0; d < kD; ++d) {
      for (size_t v = 0; v < kV; ++v) dw[v * kD + d] = want.dw[d * kV + v];
    }
  }
  expect_near(got[3], dw, "gradient of the weight");
  if (c.bias) expect_near(got[4], want.db, "gradient of the bias");
}

INSTANTIATE_TEST_SUITE_P(
    Options, LossOptionsTest,
    testing::Values(Case{"Plain", {}}, Case{"Parts", {.chunks = 3}}, Case{"ZLoss", {.z_loss = 0.1}},
                    Case{"ZLossInParts", {.chunks = 2, .z_loss = 0.1}},
                    Case{"Ignored", {.ignore_id = 3}}, Case{"IgnoredOutside", {.ignore_id = -1}},
                    Case{"AllInParts", {.chunks = 6, .z_loss = 0.02, .ignore_id = -100}},
                    Case{"TiedWeight", {.z_loss = 0.1, .ignore_id = 0}, true, false},
                    Case{"TiedWeightInParts", {.chunks = 2, .ignore_id = 0}, true, false},
                    Case{"SpreadThinly", {.chunks = 3, .z_loss = 0.1, .row_devices = 1000}},
                    Case{"TiedWeightSpreadThinly",
                         {.chunks = 2, .ignore_id = 0, .row_devices = 1000},
                         true,
                         false}),
    [](const auto& test) { return test.param.label; });

// The sequence split over an axis, and the weight by its vocabulary: both ways to keep what the
// weight's gradient needs.
TEST(LossOnAMesh, IsThatOfOneDevice) {
  if (const auto path = plugin_path("cpu"); !path) GTEST_SKIP() << path.failure().message;
  const TensorType x{DType::kF32, {4, 16, 6}}, w{DType::kF32, {8, 6}}, y{DType::kS32, {4, 16}};
  ShardingRules rules;
  rules.axes["batch"] = {"data"};
  rules.axes["seq"] = {"context"};
  const Mesh mesh({{"data", 2}, {"context", 2}});
  const std::vector<PartitionSpec> splits = {
      {{"data"}, {"context"}, {}}, {{"data"}, {}}, {{"data"}, {"context"}}};
  std::vector<HostArray> in = test::random_arrays({x, w}, -1, 1, "loss mesh");
  std::vector<int32_t> targets(64);
  for (size_t i = 0; i < targets.size(); ++i) targets[i] = static_cast<int32_t>(i * 5 % 8);
  in.push_back(HostArray::from<int32_t>({4, 16}, targets));
  const auto one = Runtime::create({}).value_or_throw();
  const auto four = Runtime::create({.mesh = mesh}).value_or_throw();
  for (const int64_t row_devices : {1, 1000}) {
    LossOptions options;
    options.chunks = 4;
    options.row_devices = row_devices;
    const auto body = [&](const Tensors& t) {
      const LossSum loss = linear_cross_entropy(t[0], {t[1], Tensor(), true}, t[2], options);
      const ValueAndGrad vg = value_and_grad(loss.sum, {t[0], t[1]});
      return Tensors{vg.value, vg.grads[0], vg.grads[1]};
    };
    const auto want = run_once(one, trace({x, w, y}, body), in).value_or_throw();
    ProgramSpec spec;
    spec.name = "loss";
    spec.rules = rules;
    std::vector<DeviceArray> arrays;
    for (size_t i = 0; i < in.size(); ++i) {
      spec.arguments.push_back(
          {"x" + std::to_string(i), make_layout(std::vector<TensorType>{x, w, y}[i], splits[i])});
      arrays.push_back(DeviceArray::from_host(four, in[i], splits[i]).value_or_throw());
    }
    spec.trace(body);
    spec.results = {{}, splits[0], splits[1]};
    Program program = compile(four, std::move(spec)).value_or_throw();
    const auto got = program.run({&arrays[0], &arrays[1], &arrays[2]}).value_or_throw();
    for (size_t i = 0; i < 3; ++i) {
      const HostArray host = got[i].to_host().value_or_throw();
      const auto a = host.as<float>(), b = want[i].as<float>();
      for (size_t n = 0; n < a.size(); ++n) EXPECT_NEAR(a[n], b[n], 1e-4) << i << ", " << n;
    }
  }
}

}  // namespace
}  // namespace espalier
