// Compiling and running StableHLO on one and on four CPU devices.
#include <gtest/gtest.h>

#include <numeric>
#include <thread>

#include "tests/plugin/pjrt_test_support.h"

namespace espalier::test {
namespace {

constexpr const char* kAdd = R"(
module @add {
  func.func public @main(%x: tensor<2x3xf32>, %y: tensor<2x3xf32>) -> tensor<2x3xf32> {
    %0 = stablehlo.add %x, %y : tensor<2x3xf32>
    return %0 : tensor<2x3xf32>
  }
})";

// Rows over four devices; the mean over all rows needs a collective.
constexpr const char* kSharded = R"(
module @sharded attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["data"=4]>
  func.func public @main(
      %x: tensor<8x2xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>})
      -> (tensor<8x2xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>},
          tensor<2xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %double = stablehlo.add %x, %x : tensor<8x2xf32>
    %sum = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [0]
        : (tensor<8x2xf32>, tensor<f32>) -> tensor<2xf32>
    return %double, %sum : tensor<8x2xf32>, tensor<2xf32>
  }
})";

constexpr const char* kDonate = R"(
module @donate attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["data"=4]>
  func.func public @main(
      %x: tensor<4096xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}]>,
                            tf.aliasing_output = 0 : i32},
      %y: tensor<4096xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}]>})
      -> (tensor<4096xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}]>}) {
    %0 = stablehlo.add %x, %y : tensor<4096xf32>
    return %0 : tensor<4096xf32>
  }
})";

constexpr const char* kDonateOne = R"(
module @donate_one {
  func.func public @main(%x: tensor<8xf32> {jax.buffer_donor = true}) -> tensor<8xf32> {
    %0 = stablehlo.add %x, %x : tensor<8xf32>
    return %0 : tensor<8xf32>
  }
})";

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

HostArray iota(Dims dims, float start = 0) {
  HostArray out(DType::kF32, std::move(dims));
  std::iota(out.as<float>().begin(), out.as<float>().end(), start);
  return out;
}

TEST_P(PluginTest, AddsTwoArrays) {
  const auto one = client(4);
  const auto program = one->compile(kAdd, on_devices(1)).value_or_throw();
  EXPECT_EQ(program.devices().size(), 1u);
  EXPECT_EQ(program.num_outputs(), 1u);
  const Buffer x = put(*one, iota({2, 3})), y = put(*one, iota({2, 3}, 10));
  const auto results = program.execute({{&x, &y}}).value_or_throw();
  EXPECT_EQ(floats(results[0][0]), (std::vector<float>{10, 12, 14, 16, 18, 20}));
  EXPECT_FALSE(x.is_deleted().value_or_throw());
}

TEST_P(PluginTest, ExecutableDescribesItself) {
  const auto program = client(4)->compile(kSharded, on_devices(4)).value_or_throw();
  const Executable& executable = program.executable();
  EXPECT_TRUE(contains(executable.name().value_or_throw(), "sharded"));
  EXPECT_EQ(executable.num_partitions().value_or_throw(), 4);
  EXPECT_EQ(executable.num_replicas().value_or_throw(), 1);
  EXPECT_EQ(executable.num_outputs().value_or_throw(), 2);
  EXPECT_EQ(executable.output_dims().value_or_throw(), (std::vector<Dims>{{2, 2}, {2}}));
  EXPECT_EQ(executable.output_dtypes().value_or_throw(),
            (std::vector<DType>{DType::kF32, DType::kF32}));
  const auto kinds = executable.output_memory_kinds();
  if (kinds) {
    EXPECT_EQ(kinds->size(), 2u);
  } else {
    EXPECT_EQ(kinds.failure().code, Code::kUnimplemented) << kinds.failure().message;
  }
  const auto stats = executable.memory_stats().value_or_throw();
  EXPECT_EQ(stats.argument, 2 * 2 * 4);
  EXPECT_GE(stats.output, (2 * 2 + 2) * 4);
  ASSERT_TRUE(stats.peak.has_value());
}

TEST_P(PluginTest, ShardedRunReducesOverDevices) {
  const auto four = client(4);
  const auto program = four->compile(kSharded, on_devices(4)).value_or_throw();
  ASSERT_EQ(program.devices().size(), 4u);
  const Counts counts =
      program.executable().optimized_program().value_or_throw().opcode_counts().value_or_throw();
  EXPECT_EQ(counts.at("all-reduce"), 1);
  EXPECT_FALSE(counts.contains("all-gather"));

  std::vector<Buffer> shards;
  std::vector<std::vector<const Buffer*>> arguments;
  for (size_t device = 0; device < 4; ++device) {
    EXPECT_EQ(program.devices()[device]->id(), static_cast<int>(device));
    shards.push_back(put(*four, iota({2, 2}, 4.0f * static_cast<float>(device)), device));
  }
  for (const Buffer& shard : shards) arguments.push_back({&shard});
  const auto results = program.execute(arguments).value_or_throw();
  for (size_t device = 0; device < 4; ++device) {
    const float first = 8.0f * static_cast<float>(device);
    EXPECT_EQ(floats(results[device][0]),
              (std::vector<float>{first, first + 2, first + 4, first + 6}));
    EXPECT_EQ(floats(results[device][1]), (std::vector<float>{56, 64}));
  }
}

TEST_P(PluginTest, DonationReusesTheMemory) {
  const auto four = client(4);
  const auto program = four->compile(kDonate, on_devices(4)).value_or_throw();
  ExecuteFrame frame = program.make_frame(2);
  std::vector<Buffer> x, y;
  std::vector<uintptr_t> pointers;
  for (size_t device = 0; device < 4; ++device) {
    x.push_back(put(*four, iota({1024}), device));
    y.push_back(put(*four, iota({1024}, 1), device));
    pointers.push_back(x.back().unsafe_pointer().value_or_throw());
    frame.set_argument(device, 0, x.back());
    frame.set_argument(device, 1, y.back());
  }
  ASSERT_TRUE(program.execute(frame, {.completion_events = true}));
  for (size_t device = 0; device < 4; ++device) {
    EXPECT_TRUE(frame.take_event(device).await());
    const Buffer out = frame.take_output(device, 0);
    EXPECT_EQ(out.unsafe_pointer().value_or_throw(), pointers[device]);
    EXPECT_EQ(floats(out)[1000], 2001.0f);
    EXPECT_TRUE(x[device].is_deleted().value_or_throw());
    EXPECT_FALSE(y[device].is_deleted().value_or_throw());
    EXPECT_FALSE(frame.take_output(device, 0).valid());
  }
}

TEST_P(PluginTest, ADonatedArgumentCannotBeUsedAgain) {
  const auto one = client(4);
  const auto program = one->compile(kDonateOne, on_devices(1)).value_or_throw();
  const Buffer x = put(*one, iota({8}));
  ASSERT_TRUE(program.execute({{&x}}));
  ASSERT_TRUE(x.is_deleted().value_or_throw());
  const auto again = program.execute({{&x}});
  ASSERT_FALSE(again);
  EXPECT_TRUE(contains(again.failure().message, "deleted or donated")) << again.failure().message;
}

TEST_P(PluginTest, NonDonatableArgumentsStay) {
  const auto four = client(4);
  const auto program = four->compile(kDonate, on_devices(4)).value_or_throw();
  std::vector<Buffer> x;
  for (size_t device = 0; device < 4; ++device) x.push_back(put(*four, iota({1024}), device));
  std::vector<std::vector<const Buffer*>> arguments;
  for (const Buffer& each : x) arguments.push_back({&each, &each});
  const int64_t keep[] = {0};
  const auto results = program.execute(arguments, {.non_donatable = keep}).value_or_throw();
  EXPECT_EQ(floats(results[3][0])[1000], 2000.0f);
  EXPECT_FALSE(x[3].is_deleted().value_or_throw());
  EXPECT_EQ(floats(x[3])[1000], 1000.0f);
}

TEST_P(PluginTest, SerializedExecutableRuns) {
  const auto four = client(4);
  std::string bytes;
  {
    const auto program = four->compile(kSharded, on_devices(4)).value_or_throw();
    bytes = program.executable().serialize().value_or_throw();
  }
  ASSERT_FALSE(bytes.empty());
  const auto program = four->deserialize_and_load(bytes).value_or_throw();
  ASSERT_EQ(program.devices().size(), 4u);
  std::vector<Buffer> shards;
  std::vector<std::vector<const Buffer*>> arguments;
  for (size_t device = 0; device < 4; ++device) shards.push_back(put(*four, iota({2, 2}), device));
  for (const Buffer& shard : shards) arguments.push_back({&shard});
  const auto results = program.execute(arguments).value_or_throw();
  EXPECT_EQ(floats(results[2][1]), (std::vector<float>{8, 16}));

  const auto damaged = four->deserialize_and_load(bytes.substr(0, bytes.size() / 2));
  ASSERT_FALSE(damaged);
  EXPECT_TRUE(contains(damaged.failure().message, "cannot load a stored executable"));
}

TEST_P(PluginTest, ErrorsCarryThePluginsMessage) {
  const auto four = client(4);
  const auto bad = four->compile("module { func.func @main( }", on_devices(1));
  ASSERT_FALSE(bad);
  EXPECT_TRUE(contains(bad.failure().message, "cannot compile the module for 1 devices"));
  EXPECT_GT(bad.failure().message.size(), 80u) << bad.failure().message;

  const auto program = four->compile(kAdd, on_devices(1)).value_or_throw();
  const Buffer x = put(*four, iota({2, 3})), wrong = put(*four, iota({3, 3}));
  const auto few = program.execute({{&x}});
  ASSERT_FALSE(few);
  EXPECT_FALSE(few.failure().message.empty());
  const auto shape = program.execute({{&x, &wrong}});
  ASSERT_FALSE(shape);
  EXPECT_FALSE(shape.failure().message.empty());

  const auto lists = program.execute({{&x, &x}, {&x, &x}});
  ASSERT_FALSE(lists);
  EXPECT_EQ(lists.failure().code, Code::kInvalidArgument);
  ExecuteFrame frame = program.make_frame(2);
  frame.set_argument(0, 0, x);
  const auto unset = program.execute(frame);
  ASSERT_FALSE(unset);
  EXPECT_TRUE(contains(unset.failure().message, "argument 1 on device 0 is not set"));
  ExecuteFrame other(four, 2, 2, 1);
  EXPECT_FALSE(program.execute(other));
}

TEST_P(PluginTest, AnUnknownCompilerFlagIsRefused) {
  CompileOptions options = on_devices(1);
  options.overrides["xla_no_such_flag"] = true;
  const auto refused = client(4)->compile(kAdd, options);
  ASSERT_FALSE(refused);
  EXPECT_TRUE(contains(refused.failure().message, "xla_no_such_flag"));
  options.overrides.clear();
  options.overrides["xla_cpu_enable_fast_math"] = true;
  EXPECT_TRUE(client(4)->compile(kAdd, options));
}

TEST_P(PluginTest, ResultsFollowDeviceAssignment) {
  const auto four = client(4);
  CompileOptions options;
  options.device_ids = {2};
  const auto program = four->compile(kAdd, options).value_or_throw();
  ASSERT_EQ(program.devices().size(), 1u);
  EXPECT_EQ(program.devices()[0]->id(), 2);
  const Buffer x = put(*four, iota({2, 3}), 2);
  const auto results = program.execute({{&x, &x}}).value_or_throw();
  EXPECT_EQ(results[0][0].device().value_or_throw()->id(), 2);
}

TEST_P(PluginTest, SeveralThreadsRunOneProgram) {
  const auto one = client(4);
  const auto program = one->compile(kAdd, on_devices(1)).value_or_throw();
  std::vector<std::thread> threads;
  std::vector<int> right(4);
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      const Buffer x = put(*one, iota({2, 3}, static_cast<float>(t)));
      for (int i = 0; i < 50; ++i) {
        const auto results = program.execute({{&x, &x}});
        right[static_cast<size_t>(t)] +=
            results && floats((*results)[0][0])[0] == 2.0f * static_cast<float>(t);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(right, (std::vector<int>{50, 50, 50, 50}));
}

INSTANTIATE_TEST_SUITE_P(Cpu, PluginTest, testing::ValuesIn(kPluginFiles), plugin_label);

}  // namespace
}  // namespace espalier::test
