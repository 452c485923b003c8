// Ring attention: its values and gradients beside dense attention's in float64, on meshes that
// split the sequence, and what its program sends.
#include <gtest/gtest.h>

#include "espalier/nn/attention.h"
#include "tests/support/attention_cases.h"
#include "tests/support/error_of.h"
#include "tests/support/op_cases.h"

namespace espalier::test {
namespace {

struct Layout {
  const char* name;
  Mesh mesh;
  ShardingRules rules;
  AttentionShape shape;
  PartitionSpec array;
};

Layout layout(const char* name, std::vector<MeshAxis> axes, const AttentionShape& shape) {
  Layout out{name, Mesh(std::move(axes)), {}, shape, {}};
  const std::pair<const char*, const char*> rules[] = {
      {"batch", "data"}, {"seq", "context"}, {"heads", "tensor"}};
  for (const auto& [logical, axis] : rules) {
    if (out.mesh.has(axis)) out.rules.axes[logical] = {axis};
  }
  out.array = out.rules.resolve({"batch", "seq", "", ""}, out.mesh);
  return out;
}

std::vector<Layout> layouts() {
  return {layout("context 8", {{"context", 8}}, {2, 48, 4, 4, 8}),
          layout("data 2 x context 4", {{"data", 2}, {"context", 4}}, {2, 64, 6, 2, 5}),
          layout("context 2 x tensor 4", {{"context", 2}, {"tensor", 4}}, {1, 40, 8, 4, 8}),
          layout("heads not divided", {{"tensor", 4}, {"context", 2}}, {1, 40, 8, 2, 8}),
          // Pieces of several blocks of keys.
          layout("blocks", {{"context", 2}}, {1, 2 * 2 * kRingBlock, 2, 1, 4}),
          layout("padded blocks", {{"context", 2}}, {1, 2 * (kRingBlock + 5), 2, 1, 4})};
}

Build named(const Layout& l, const char* name) {
  auto placement = std::make_shared<const Placement>(Placement{"cpu", l.mesh, l.rules});
  return [placement, name](const Tensor& q, const Tensor& k, const Tensor& v) {
    static const ParamSpecs kNone;
    return find_attention(name)(q, k, v, Ctx(kNone, {}).on(placement));
  };
}

std::vector<HostArray> exact(const AttentionShape& shape, const std::vector<HostArray>& in) {
  std::vector<HostArray> wide;
  for (const HostArray& x : in) wide.push_back(x.converted(DType::kF64));
  const auto one = Runtime::create({}).value_or_throw();
  return run_once(one, with_gradients(shape, causal_attention, DType::kF64), wide).value_or_throw();
}

TEST(RingAttention, EqualsDenseInValuesAndGradients) {
  for (const Layout& l : layouts()) {
    const auto in = random_arrays(l.shape.types(), -2, 2, "ring");
    const auto want = exact(l.shape, in);
    const auto runtime = Runtime::create({.mesh = l.mesh}).value_or_throw();
    std::vector<DeviceArray> arrays;
    for (const HostArray& x : in) {
      arrays.push_back(DeviceArray::from_host(runtime, x, l.array).value_or_throw());
    }
    Program program =
        compile(runtime, program_of(with_gradients(l.shape, named(l, "ring")), l.array))
            .value_or_throw();
    const auto got = program.run({&arrays[0], &arrays[1], &arrays[2], &arrays[3]}).value_or_throw();
    for (size_t i = 0; i < 4; ++i) {
      EXPECT_LE(apart(got[i].to_host().value_or_throw(), want[i]), 2e-6)
          << l.name << ", result " << i;
    }
  }
}

// Keys and values go round; nothing is gathered. Of 8 devices: forward one pair and backward two
// pairs of arrays, in loops, and one turn that brings two sums home.
TEST(RingAttention, SendsPiecesRoundAndGathersNothing) {
  const Layout l = layouts()[0];
  const auto runtime = Runtime::create({.mesh = l.mesh}).value_or_throw();
  for (const char* name : {"ring", "auto"}) {
    const Program program =
        compile(runtime, program_of(with_gradients(l.shape, named(l, name)), l.array))
            .value_or_throw();
    const auto counts =
        program.executable().optimized_program().value_or_throw().opcode_counts().value_or_throw();
    EXPECT_EQ(counts.at("collective-permute"), 2 + 4 + 2) << name;
    EXPECT_FALSE(counts.contains("all-gather")) << name;
    EXPECT_FALSE(counts.contains("all-reduce")) << name;
  }
}

TEST(RingAttention, RefusesWhatItCannotSplit) {
  const auto message = [](const Layout& l) {
    return error_of([&] { with_gradients(l.shape, named(l, "ring")); });
  };
  Layout odd = layout("odd", {{"context", 8}}, {1, 44, 2, 2, 8});
  EXPECT_NE(message(odd).find("the sequence of 44 is not divided by mesh axis 'context' of 8"),
            std::string::npos)
      << message(odd);
  Layout two = layout("two axes", {{"context", 2}, {"more", 2}}, {1, 40, 2, 2, 8});
  two.rules.axes["seq"] = {"context", "more"};
  EXPECT_NE(message(two).find("split over one mesh axis"), std::string::npos) << message(two);
}

}  // namespace
}  // namespace espalier::test
