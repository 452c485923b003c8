// cuDNN's attention as XLA for NVIDIA compiles it, without a GPU: what the program calls, and what
// it does not compute itself. Values need a device.
#include <gtest/gtest.h>

#include "espalier/base/child_process.h"
#include "espalier/base/locate.h"
#include "espalier/nn/attention.h"
#include "espalier/pjrt/named_topology.h"
#include "espalier/runtime/ahead.h"
#include "tests/support/attention_cases.h"

namespace espalier::test {
namespace {

constexpr AttentionShape kShape{4, 256, 8, 4, 64};

Build fused(const char* name, const Mesh& mesh, const ShardingRules& rules) {
  auto placement = std::make_shared<const Placement>(Placement{"cuda", mesh, rules});
  return [placement, name](const Tensor& q, const Tensor& k, const Tensor& v) {
    static const ParamSpecs kNone;
    return find_attention(name)(q, k, v, Ctx(kNone, {}).on(placement));
  };
}

// "opcode count" lines of what the compiler made, and its custom calls.
std::string compiled(const std::string& topology, const ProgramSpec& spec, const Mesh& mesh) {
  return run_in_child(
             "the compiler",
             [&]() -> Result<std::string> {
               ESPALIER_ASSIGN(const NamedTopology named, parse_topology(topology));
               ESPALIER_ASSIGN(const Topology devices, make_topology(named));
               ESPALIER_ASSIGN(const AheadProgram made, compile_ahead(devices, mesh, spec));
               ESPALIER_ASSIGN(const OptimizedProgram program, made.executable.optimized_program());
               ESPALIER_ASSIGN(const Counts calls, program.custom_call_targets());
               ESPALIER_ASSIGN(const Counts codes, program.opcode_counts());
               std::string out;
               for (const auto& [name, count] : calls) {
                 out += name + " " + std::to_string(count) + "\n";
               }
               for (const auto& [name, count] : codes) out += name + "\n";
               return out;
             })
      .value_or_throw();
}

void expect_cudnn(const std::string& made) {
  EXPECT_NE(made.find("__cudnn$fmhaSoftmax 1\n"), std::string::npos) << made;
  EXPECT_NE(made.find("__cudnn$fmhaSoftmaxBackward 1\n"), std::string::npos) << made;
  for (const char* other : {"exponential\n", "dot\n", "all-gather", "all-reduce"}) {
    EXPECT_EQ(made.find(other), std::string::npos) << other << " in\n" << made;
  }
}

TEST(CudnnAttention, IsWhatXlaCompiles) {
  if (const auto path = plugin_path("cuda"); !path) GTEST_SKIP() << path.failure().message;
  for (const char* name : {"fused", "auto"}) {
    for (const char* part : {"h200:1", "a100:1"}) {
      const Function f = with_gradients(kShape, fused(name, {}, {}), DType::kBF16);
      expect_cudnn(compiled(part, program_of(f, {{}, {}, {}, {}}), {}));
    }
  }
}

TEST(CudnnAttention, RunsOnEachDevicesHeads) {
  if (const auto path = plugin_path("cuda"); !path) GTEST_SKIP() << path.failure().message;
  const Mesh mesh({{"data", 2}, {"tensor", 4}});
  ShardingRules rules;
  rules.axes["batch"] = {"data"};
  rules.axes["heads"] = {"tensor"};
  const Function f = with_gradients(kShape, fused("fused", mesh, rules), DType::kBF16);
  expect_cudnn(compiled("h100:8", program_of(f, {{"data"}, {}, {"tensor"}, {}}), mesh));
}

// Needs no plugin: which queries it is for.
TEST(CudnnAttention, IsForNarrowTypesAndHeads) {
  const auto has = [](DType dtype, int64_t width) {
    bool out = false;
    trace({{dtype, {1, 8, 2, width}}}, [&](const Tensors& in) {
      static const ParamSpecs kNone;
      auto placement = std::make_shared<const Placement>(Placement{"cuda", {}, {}});
      out = has_fused_attention(in[0], Ctx(kNone, {}).on(placement));
      return in;
    });
    return out;
  };
  EXPECT_TRUE(has(DType::kBF16, 64));
  EXPECT_TRUE(has(DType::kBF16, 128));
  EXPECT_TRUE(has(DType::kF16, 8));
  EXPECT_FALSE(has(DType::kF32, 64));
  EXPECT_FALSE(has(DType::kBF16, 60));
  EXPECT_FALSE(has(DType::kBF16, 256));
}

}  // namespace
}  // namespace espalier::test
