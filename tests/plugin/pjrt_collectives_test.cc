// Many collectives in flight on more CPU devices than cores: with too few threads XLA:CPU starves
// one of them and aborts the process after 40 s, so a pass means that PJRT_NPROC took effect.
#include <gtest/gtest.h>

#include "tests/plugin/pjrt_test_support.h"

namespace espalier::test {
namespace {

// Each turn swaps the two pipeline stages' blocks, then averages over the four tensor shards.
constexpr const char* kPipeline = R"(
module @pipeline attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["pp"=2, "tp"=4]>
  func.func public @main(
      %x: tensor<2x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"pp"}, {"tp"}]>,
                           tf.aliasing_output = 0 : i32})
      -> (tensor<2x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"pp"}, {"tp"}]>}) {
    %out = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"pp"}, {"tp"}]>]
        out_shardings=[<@mesh, [{"pp"}, {"tp"}]>] manual_axes={"pp", "tp"}
        (%local: tensor<1x1xf32>) {
      %zero = stablehlo.constant dense<0> : tensor<i32>
      %one = stablehlo.constant dense<1> : tensor<i32>
      %turns = stablehlo.constant dense<21> : tensor<i32>
      %quarter = stablehlo.constant dense<0.25> : tensor<1x1xf32>
      %end:2 = stablehlo.while(%i = %zero, %v = %local) : tensor<i32>, tensor<1x1xf32>
        cond {
          %more = stablehlo.compare LT, %i, %turns : (tensor<i32>, tensor<i32>) -> tensor<i1>
          stablehlo.return %more : tensor<i1>
        } do {
          %swapped = "stablehlo.collective_permute"(%v) {
            channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>,
            source_target_pairs = dense<[[0, 4], [1, 5], [2, 6], [3, 7],
                                         [4, 0], [5, 1], [6, 2], [7, 3]]> : tensor<8x2xi64>
          } : (tensor<1x1xf32>) -> tensor<1x1xf32>
          %sum = "stablehlo.all_reduce"(%swapped) ({
            ^bb0(%a: tensor<f32>, %b: tensor<f32>):
              %c = stablehlo.add %a, %b : tensor<f32>
              stablehlo.return %c : tensor<f32>
          }) {
            channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>,
            replica_groups = dense<[[0, 1, 2, 3], [4, 5, 6, 7]]> : tensor<2x4xi64>,
            use_global_device_ids
          } : (tensor<1x1xf32>) -> tensor<1x1xf32>
          %mean = stablehlo.multiply %sum, %quarter : tensor<1x1xf32>
          %next = stablehlo.add %i, %one : tensor<i32>
          stablehlo.return %next, %mean : tensor<i32>, tensor<1x1xf32>
        }
      sdy.return %end#1 : tensor<1x1xf32>
    } : (tensor<2x4xf32>) -> tensor<2x4xf32>
    return %out : tensor<2x4xf32>
  }
})";

TEST_P(PluginTest, PipelineAndTensorCollectivesDoNotStarve) {
  const auto eight = client(8);
  const auto program = eight->compile(kPipeline, on_devices(8)).value_or_throw();
  const Counts counts =
      program.executable().optimized_program().value_or_throw().opcode_counts().value_or_throw();
  EXPECT_EQ(counts.at("while"), 1);
  EXPECT_EQ(counts.at("collective-permute"), 1);

  ExecuteFrame frame = program.make_frame(1);
  std::vector<Buffer> state;
  for (size_t device = 0; device < 8; ++device) {
    const auto value = static_cast<float>(device);
    state.push_back(put(*eight, HostArray::from<float>({1, 1}, std::vector<float>{value}), device));
  }
  constexpr int kSteps = 50;
  for (int step = 0; step < kSteps; ++step) {
    for (size_t device = 0; device < 8; ++device) frame.set_argument(device, 0, state[device]);
    const auto status = program.execute(frame);
    ASSERT_TRUE(status) << status.failure().message;
    for (size_t device = 0; device < 8; ++device) state[device] = frame.take_output(device, 0);
  }
  // An even number of swaps in all: the means of 0..3 and of 4..7, where they began.
  for (size_t device = 0; device < 8; ++device) {
    EXPECT_EQ(floats(state[device]), (std::vector<float>{device < 4 ? 1.5f : 5.5f}));
  }
}

INSTANTIATE_TEST_SUITE_P(Cpu, PluginTest, testing::ValuesIn(kPluginFiles), plugin_label);

}  // namespace
}  // namespace espalier::test
