// Every operation of the table, and its gradient, on the CPU plugin against the oracle: what is
// printed is what XLA accepts, and it means what the oracle computes.
#include <gtest/gtest.h>

#include "espalier/runtime/program.h"
#include "tests/support/compare.h"
#include "tests/support/derivatives.h"
#include "tests/support/op_cases.h"
#include "tests/support/oracle.h"

namespace espalier::test {
namespace {

// Many functions side by side, to be compiled as one: a compilation costs more than a run.
struct Combined {
  Function function;
  std::vector<HostArray> arguments, want;
  std::vector<std::string> labels;  // of the results

  void add(const std::string& label, const Function& f, const std::vector<HostArray>& inputs) {
    const auto append = [](auto& to, const auto& more) {
      to.insert(to.end(), more.begin(), more.end());
    };
    append(function.params, f.params);
    append(function.results, f.results);
    append(arguments, inputs);
    append(want, evaluate(f, inputs));
    for (size_t i = 0; i < f.results.size(); ++i) {
      labels.push_back(label + " result " + std::to_string(i));
    }
  }

  void expect_on(const Mesh& mesh, double tolerance) const {
    RuntimeOptions options;
    options.mesh = mesh;
    const auto runtime = Runtime::create(options);
    if (!runtime && runtime.failure().code == Code::kNotFound) {
      GTEST_SKIP() << "plugin not present: " << runtime.failure().message;
    }
    ASSERT_TRUE(runtime) << runtime.failure().message;
    const auto got = run_once(*runtime, function, arguments, case_rules());
    ASSERT_TRUE(got) << got.failure().message;
    for (size_t i = 0; i < want.size(); ++i) {
      EXPECT_TRUE(close_to((*got)[i], want[i], tolerance)) << labels[i];
    }
  }
};

// Cases for a mesh, their values or their gradients, in float32.
Combined combined(const Mesh& mesh, bool gradients) {
  Combined out;
  for (const OpCase& c : op_cases()) {
    if (!c.runs || c.mesh != mesh || (gradients && !c.differentiable)) continue;
    const Function value = trace_case(c, DType::kF32);
    auto inputs = random_arrays(types_of(value.params), c.low, c.high, c.label);
    if (!gradients) {
      out.add(c.label, value, inputs);
      continue;
    }
    for (const HostArray& ct : random_arrays(cotangent_types(value), -1, 1, c.label)) {
      inputs.push_back(ct);
    }
    out.add(c.label + " gradient", pullback_of(value), inputs);
  }
  return out;
}

// Float32 keeps 7 digits; sums of a few dozen terms, and XLA's approximations of erf_inv and the
// like, lose up to two of them.
constexpr double kTolerance = 2e-5;

TEST(OpPlugin, ValuesAgreeWithTheOracle) { combined(Mesh(), false).expect_on(Mesh(), kTolerance); }

TEST(OpPlugin, GradientsAgreeWithTheOracle) {
  combined(Mesh(), true).expect_on(Mesh(), 2 * kTolerance);
}

// Manual regions, over all axes of their mesh or with axes left to the partitioner.
class ShardMapPlugin : public testing::TestWithParam<Mesh> {};

TEST_P(ShardMapPlugin, ValuesAgreeWithTheOracle) {
  const Combined cases = combined(GetParam(), false);
  ASSERT_FALSE(cases.want.empty());
  cases.expect_on(GetParam(), kTolerance);
}

TEST_P(ShardMapPlugin, GradientsAgreeWithTheOracle) {
  combined(GetParam(), true).expect_on(GetParam(), 2 * kTolerance);
}

std::vector<Mesh> meshes() {
  std::vector<Mesh> out;
  for (const OpCase& c : op_cases()) {
    const bool known = std::find(out.begin(), out.end(), c.mesh) != out.end();
    if (!c.mesh.axes().empty() && !known) out.push_back(c.mesh);
  }
  return out;
}

std::string mesh_name(const testing::TestParamInfo<Mesh>& info) {
  std::string out;
  for (const MeshAxis& axis : info.param.axes()) out += axis.name + std::to_string(axis.size);
  return out;
}
INSTANTIATE_TEST_SUITE_P(Meshes, ShardMapPlugin, testing::ValuesIn(meshes()), mesh_name);

}  // namespace
}  // namespace espalier::test
