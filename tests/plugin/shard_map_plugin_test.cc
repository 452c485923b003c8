// A pipeline in a manual region on 8 devices: stages over one axis by hand, batch and features left
// to the partitioner; value and gradient against the same computation without a mesh.
#include <gtest/gtest.h>

#include "espalier/ops/op_list.h"
#include "espalier/runtime/program.h"
#include "espalier/transform/grad.h"
#include "tests/support/compare.h"
#include "tests/support/op_cases.h"
#include "tests/support/oracle.h"

namespace espalier::test {
namespace {

constexpr int64_t kStages = 2, kMicrobatches = 4, kBatch = 4, kWidth = 4, kHidden = 6;
const Mesh kMesh({{"pp", kStages}, {"dp", 2}, {"tp", 2}});
const std::vector<TensorType> kInputs = {{DType::kF32, {kStages, kWidth, kHidden}},
                                         {DType::kF32, {kStages, kHidden, kWidth}},
                                         {DType::kF32, {kMicrobatches, kBatch, kWidth}}};

// One residual block; w1 and w2 hold the block's weights behind a dim of size 1.
Tensor stage(const Tensor& x, const Tensor& w1, const Tensor& w2) {
  const Tensor h = tanh(matmul(x, reshape(w1, {kWidth, kHidden})));
  return x + matmul(shard(h, {"batch", "hidden"}), reshape(w2, {kHidden, kWidth}));
}

Tensor plain(const Tensors& in) {
  Tensors out;
  for (int64_t m = 0; m < kMicrobatches; ++m) {
    Tensor x = reshape(slice_dim(in[2], 0, m, m + 1), {kBatch, kWidth});
    for (int64_t s = 0; s < kStages; ++s) {
      x = stage(x, slice_dim(in[0], 0, s, s + 1), slice_dim(in[1], 0, s, s + 1));
    }
    out.push_back(x);
  }
  return stack(out);
}

// At each step every device runs its stage and hands the result to the next one.
Tensors pipeline_body(const Tensors& in, const Manual& manual) {
  const Tensor index = manual.axis_index("pp");
  const Tensor first = compare(index, 0.0, Direction::kEq);
  const Tensor last = compare(index, double{kStages - 1}, Direction::kEq);
  const auto step = [&](const Tensors& carry, const Tensors& element) {
    const Tensor y = stage(select(first, element[0], carry[0]), in[0], in[1]);
    return ScanResult{{manual.rotate(y, "pp")}, {y}};
  };
  const Tensor feed = pad(in[2], 0, {0, 0, 0}, {kStages - 1, 0, 0});
  const Tensor all = scan(step, {zeros({DType::kF32, {kBatch, kWidth}})}, {feed}).outputs[0];
  const Tensor done = slice_dim(all, 0, kStages - 1, kStages - 1 + kMicrobatches);
  return {manual.all_reduce(select(last, done, zeros_like(done)), {"pp"})};
}

Tensor pipelined(const Tensors& in) {
  const PartitionSpec by_stage = {{"pp"}, {}, {}}, same = {{}, {}, {}};
  return shard_map(kMesh, {"pp"}, {by_stage, by_stage, same}, {same}, pipeline_body, in)[0];
}

Function value_and_grads(const std::function<Tensor(const Tensors&)>& model) {
  return trace(kInputs, [&](const Tensors& in) {
    const Tensor out = model(in);
    const ValueAndGrad result = value_and_grad(reduce_sum(sin(out)), in, {out});
    Tensors all = {result.value, result.aux[0]};
    all.insert(all.end(), result.grads.begin(), result.grads.end());
    return all;
  });
}

TEST(ShardMapPlugin, APipelineWithOtherAxesLeftToThePartitioner) {
  RuntimeOptions options;
  options.mesh = kMesh;
  const auto runtime = Runtime::create(options);
  if (!runtime && runtime.failure().code == Code::kNotFound) {
    GTEST_SKIP() << "plugin not present: " << runtime.failure().message;
  }
  ASSERT_TRUE(runtime) << runtime.failure().message;

  ProgramSpec spec;
  spec.function = value_and_grads(pipelined);
  spec.rules.axes = {{"batch", {"dp"}}, {"hidden", {"tp"}}};
  const std::vector<PartitionSpec> splits = {
      {{"pp"}, {}, {"tp"}}, {{"pp"}, {"tp"}, {}}, {{}, {"dp"}, {}}};
  spec.results = {{}, splits[2], splits[0], splits[1], splits[2]};
  const auto arguments = random_arrays(kInputs, -1, 1, "pipeline");
  std::vector<DeviceArray> arrays;
  std::vector<DeviceArray*> pointers;
  for (size_t i = 0; i < arguments.size(); ++i) {
    auto array = DeviceArray::from_host(*runtime, arguments[i], splits[i]);
    ASSERT_TRUE(array) << array.failure().message;
    spec.arguments.push_back({"argument " + std::to_string(i), array->layout()});
    arrays.push_back(std::move(*array));
  }
  for (DeviceArray& array : arrays) pointers.push_back(&array);
  auto program = compile(*runtime, std::move(spec));
  ASSERT_TRUE(program) << program.failure().message;
  const auto results = program->run(pointers);
  ASSERT_TRUE(results) << results.failure().message;

  const auto want = evaluate(value_and_grads(plain), arguments);
  for (size_t i = 0; i < want.size(); ++i) {
    const auto got = (*results)[i].to_host();
    ASSERT_TRUE(got) << got.failure().message;
    EXPECT_TRUE(close_to(*got, want[i], 2e-5)) << "result " << i;
  }

  // The pieces inside stay split by the axes that are the partitioner's: nothing is gathered.
  const auto optimized = program->executable().optimized_program();
  if (!optimized) return;  // not every plugin tells
  const auto counts = optimized->opcode_counts();
  ASSERT_TRUE(counts) << counts.failure().message;
  EXPECT_EQ(counts->count("all-gather"), 0U);
  EXPECT_GT(counts->at("collective-permute"), 0);
}

}  // namespace
}  // namespace espalier::test
