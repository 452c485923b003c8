// The attention kernel: its values and gradients beside dense attention's in float64, on one device
// and on meshes, and the code for each kind of processor.
#include <gtest/gtest.h>

#include <cmath>

#include "espalier/kernels/chosen.h"
#include "espalier/nn/attention.h"
#include "espalier/ops/op_list.h"
#include "tests/support/attention_cases.h"
#include "tests/support/op_cases.h"

namespace espalier::test {
namespace {

const AttentionShape kShapes[] = {{2, 64, 4, 4, 32},  {1, 200, 3, 3, 64}, {2, 77, 4, 2, 24},
                                  {1, 130, 8, 1, 16}, {3, 1, 2, 2, 8},    {2, 33, 2, 2, 5},
                                  {1, 32, 1, 1, 128}};

Build fused(const Mesh& mesh, const ShardingRules& rules) {
  auto placement = std::make_shared<const Placement>(Placement{"cpu", mesh, rules});
  return [placement](const Tensor& q, const Tensor& k, const Tensor& v) {
    static const ParamSpecs kNone;
    return fused_attention(q, k, v, Ctx(kNone, {}).on(placement));
  };
}

// The same of q, k and v joined to one array.
Build packed(const Mesh& mesh, const ShardingRules& rules) {
  auto placement = std::make_shared<const Placement>(Placement{"cpu", mesh, rules});
  return [placement](const Tensor& q, const Tensor& k, const Tensor& v) {
    static const ParamSpecs kNone;
    const auto part = [](const Tensor& x) {
      return reshape(x, {x.dim(0), x.dim(1), 1, x.dim(2), x.dim(3)});
    };
    return packed_fused_attention(concatenate({part(q), part(k), part(v)}, 2),
                                  Ctx(kNone, {}).on(placement));
  };
}

std::vector<HostArray> exact(const AttentionShape& shape, const std::vector<HostArray>& in) {
  std::vector<HostArray> wide;
  for (const HostArray& x : in) wide.push_back(x.converted(DType::kF64));
  const auto one = Runtime::create({}).value_or_throw();
  return run_once(one, with_gradients(shape, causal_attention, DType::kF64), wide).value_or_throw();
}

TEST(FusedAttention, EqualsDenseInValuesAndGradients) {
  const auto runtime = Runtime::create({}).value_or_throw();
  for (const AttentionShape& shape : kShapes) {
    const auto in = random_arrays(shape.types(), -3, 3, "fused");
    const auto want = exact(shape, in);
    const auto got = run_once(runtime, with_gradients(shape, fused({}, {})), in).value_or_throw();
    for (size_t i = 0; i < 4; ++i) {
      EXPECT_LE(apart(got[i], want[i]), 2e-6) << "length " << shape.length << ", result " << i;
    }
    if (shape.heads != shape.key_heads) continue;
    // The arithmetic is the same, wherever the operands lie.
    const auto joined =
        run_once(runtime, with_gradients(shape, packed({}, {})), in).value_or_throw();
    for (size_t i = 0; i < 4; ++i) {
      EXPECT_EQ(apart(joined[i], got[i]), 0) << "length " << shape.length << ", result " << i;
    }
  }
}

// Scores of several hundred: without the highest of a row taken off they overflow.
TEST(FusedAttention, TakesLargeScores) {
  const AttentionShape shape{1, 48, 2, 2, 16};
  const auto runtime = Runtime::create({}).value_or_throw();
  const auto in = random_arrays(shape.types(), -20, 20, "large");
  const auto want = exact(shape, in);
  const auto got = run_once(runtime, with_gradients(shape, fused({}, {})), in).value_or_throw();
  for (size_t i = 0; i < 4; ++i) EXPECT_LE(apart(got[i], want[i]), 1e-4) << i;
}

TEST(FusedAttention, HandsOnWhatIsNotANumber) {
  const AttentionShape shape{1, 40, 1, 1, 16};
  const auto runtime = Runtime::create({}).value_or_throw();
  auto in = random_arrays(shape.types(), -1, 1, "nan");
  in[0].as<float>()[20 * 16] = NAN;  // of query 20 alone
  const auto got = run_once(runtime, with_gradients(shape, fused({}, {})), in).value_or_throw();
  const auto o = got[0].as<float>();
  for (size_t t = 0; t < 40; ++t) EXPECT_EQ(std::isnan(o[t * 16]), t == 20) << t;
  EXPECT_TRUE(std::isnan(got[2].as<float>()[0])) << "the gradient of a key that query 20 saw";
}

TEST(FusedAttention, IsSplitOverAMesh) {
  ShardingRules rules;
  rules.axes["batch"] = {"data"};
  rules.axes["heads"] = {"tensor"};
  const Mesh mesh({{"data", 2}, {"tensor", 4}});
  const auto eight = Runtime::create({.mesh = mesh}).value_or_throw();
  // The second has fewer key heads than the axis divides: heads are gathered.
  for (const AttentionShape& shape :
       {AttentionShape{4, 40, 8, 4, 8}, AttentionShape{2, 40, 8, 2, 8},
        AttentionShape{2, 40, 8, 8, 8}}) {
    const auto in = random_arrays(shape.types(), -2, 2, "mesh");
    const auto want = exact(shape, in);
    std::vector<std::string> heads;
    if (shape.key_heads % 4 == 0) heads = {"tensor"};
    const PartitionSpec split = {{"data"}, {}, heads, {}};
    std::vector<DeviceArray> arrays;
    for (const HostArray& x : in) {
      arrays.push_back(DeviceArray::from_host(eight, x, split).value_or_throw());
    }
    std::vector<Build> builds = {fused(mesh, rules)};
    if (shape.heads == shape.key_heads) builds.push_back(packed(mesh, rules));
    for (const Build& build : builds) {
      Program program =
          compile(eight, program_of(with_gradients(shape, build), split)).value_or_throw();
      const auto got =
          program.run({&arrays[0], &arrays[1], &arrays[2], &arrays[3]}).value_or_throw();
      for (size_t i = 0; i < 4; ++i) {
        EXPECT_LE(apart(got[i].to_host().value_or_throw(), want[i]), 2e-6) << "result " << i;
      }
    }
  }
}

TEST(FusedAttention, RefusesWhatThereIsNoKernelFor) {
  const AttentionShape shape{1, 8, 1, 1, 8};
  const auto refused = [&](DType dtype, const char* platform) {
    auto placement = std::make_shared<const Placement>(Placement{platform, {}, {}});
    std::string message;
    try {
      trace(shape.types(dtype), [&](const Tensors& in) {
        static const ParamSpecs kNone;
        return Tensors{fused_attention(in[0], in[1], in[2], Ctx(kNone, {}).on(placement))};
      });
    } catch (const Error& error) {
      message = error.what();
    }
    return message;
  };
  EXPECT_EQ(refused(DType::kF32, "cpu"), "");
  EXPECT_NE(refused(DType::kBF16, "cpu").find("no kernel for bf16"), std::string::npos);
  EXPECT_NE(refused(DType::kF32, "tpu").find("on tpu"), std::string::npos);
  EXPECT_NE(refused(DType::kF32, "").find("unknown platform"), std::string::npos);
}

// The code for other processors than this one's best, where this one can run it.
TEST(AttentionHeads, AgreeBetweenProcessors) {
  for (const AttentionShape& shape : kShapes) {
    const kernels::HeadShape s{shape.batch,
                               shape.length,
                               shape.heads,
                               shape.key_heads,
                               shape.width,
                               shape.heads * shape.width,
                               shape.key_heads * shape.width};
    const auto in = random_arrays(shape.types(), -2, 2, "kinds");
    const auto want = exact(shape, in);
    for (const auto& [name, heads, rows] : kernels::runnable()) {
      std::vector<HostArray> out;
      for (const HostArray& like : want) out.emplace_back(DType::kF32, like.dims());
      HostArray log_sum(DType::kF32, {shape.batch, shape.heads, shape.length});
      const auto at = [](const HostArray& x) { return x.as<float>().data(); };
      const auto to = [](HostArray& x) { return x.as<float>().data(); };
      for (int64_t task = 0; task < shape.batch * shape.key_heads; ++task) {
        std::vector<float> scratch(static_cast<size_t>(forward_scratch(s)));
        heads.forward({s, at(in[0]), at(in[1]), at(in[2]), to(out[0]), to(log_sum)}, task,
                      scratch.data());
        scratch.assign(static_cast<size_t>(backward_scratch(s)), 0);
        heads.backward({s, at(in[0]), at(in[1]), at(in[2]), at(out[0]), at(log_sum), at(in[3]),
                        to(out[1]), to(out[2]), to(out[3])},
                       task, scratch.data());
      }
      for (size_t i = 0; i < 4; ++i) {
        EXPECT_LE(apart(out[i], want[i]), 2e-6) << name << ", length " << shape.length << ", " << i;
      }
    }
  }
}

}  // namespace
}  // namespace espalier::test
