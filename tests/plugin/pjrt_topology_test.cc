// Compiling for devices that are not here. Needs a TPU plugin: ESPALIER_PJRT_TPU=/path/libtpu.so.
#include "espalier/pjrt/topology.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/plugin/pjrt_test_support.h"

namespace espalier::test {
namespace {

constexpr const char* kColumnSums = R"(
module @sums attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["data"=8]>
  func.func public @main(
      %x: tensor<1024x512xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>})
      -> (tensor<512xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %sum = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [0]
        : (tensor<1024x512xf32>, tensor<f32>) -> tensor<512xf32>
    return %sum : tensor<512xf32>
  }
})";

TEST(TopologyTest, CompilesForTpusWithoutOne) {
  auto path = plugin_path("tpu");
  if (!path) GTEST_SKIP() << path.failure().message;
  setenv("TPU_SKIP_MDS_QUERY", "1", /*overwrite=*/0);
  setenv("ALLOW_MULTIPLE_LIBTPU_LOAD", "1", 0);  // beside other compilations
  const auto plugin = Plugin::load(path->string()).value_or_throw();
  const auto topology = Topology::create(plugin, "v5e:2x4").value_or_throw();
  EXPECT_EQ(topology.platform_name(), "tpu");
  ASSERT_EQ(topology.devices().size(), 8u);
  EXPECT_EQ(topology.devices()[0].kind, "TPU v5 lite");

  CompileOptions options;
  options.num_partitions = 8;
  for (const DeviceDescription& device : topology.devices()) {
    options.device_ids.push_back(device.id);
  }
  const Executable executable = topology.compile(kColumnSums, options).value_or_throw();
  const auto stats = executable.memory_stats().value_or_throw();
  EXPECT_EQ(stats.argument, 1024 * 512 * 4 / 8);
  EXPECT_GE(stats.peak.value_or(0), stats.argument);
  EXPECT_TRUE(executable.cost_analysis().value_or_throw().contains("flops"));
  const Counts counts =
      executable.optimized_program().value_or_throw().opcode_counts().value_or_throw();
  EXPECT_EQ(counts.at("all-reduce"), 1);

  const auto bad = topology.compile("module { func.func @main( }", options);
  ASSERT_FALSE(bad);
  EXPECT_NE(bad.failure().message.find("8 devices of platform tpu"), std::string::npos);
}

}  // namespace
}  // namespace espalier::test
