// Custom calls: a handler of this program called by compiled programs.
#include "espalier/pjrt/ffi.h"

#include <gtest/gtest.h>

#include <atomic>

#include "tests/plugin/pjrt_test_support.h"
#include "xla/ffi/api/ffi.h"

namespace espalier::test {
namespace {

namespace ffi = ::xla::ffi;

std::atomic<int> calls = 0;

ffi::Error scale(float s, ffi::Buffer<ffi::F32> x, ffi::ResultBuffer<ffi::F32> y) {
  ++calls;
  if (s < 0) return ffi::Error::InvalidArgument("scale: s must not be negative");
  for (size_t i = 0; i < x.element_count(); ++i) y->typed_data()[i] = s * x.typed_data()[i];
  return ffi::Error::Success();
}

XLA_FFI_DEFINE_HANDLER(
    kScale, scale,
    ffi::Ffi::Bind().Attr<float>("s").Arg<ffi::Buffer<ffi::F32>>().Ret<ffi::Buffer<ffi::F32>>());
XLA_FFI_DEFINE_HANDLER(
    kOther, [] { return ffi::Error::Success(); }, ffi::Ffi::Bind());

std::string one_device(const std::string& s) {
  return R"(
module @custom {
  func.func public @main(%x: tensor<3xf32>) -> tensor<3xf32> {
    %0 = stablehlo.custom_call @espalier_test_scale(%x)
        {api_version = 4 : i32, backend_config = {s = )" +
         s + R"( : f32}} : (tensor<3xf32>) -> tensor<3xf32>
    return %0 : tensor<3xf32>
  }
})";
}

constexpr const char* kManual = R"(
module @manual attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["data"=4]>
  func.func public @main(
      %x: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}]>})
      -> (tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}]>}) {
    %0 = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"data"}]>]
        out_shardings=[<@mesh, [{"data"}]>] manual_axes={"data"} (%local: tensor<2xf32>) {
      %1 = stablehlo.custom_call @espalier_test_scale(%local)
          {api_version = 4 : i32, backend_config = {s = 3.0 : f32}}
          : (tensor<2xf32>) -> tensor<2xf32>
      sdy.return %1 : tensor<2xf32>
    } : (tensor<8xf32>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }
})";

class FfiTest : public PluginTest {
 protected:
  void SetUp() override {
    PluginTest::SetUp();
    if (plugin_ == nullptr) return;
    const auto status = register_ffi_handler(*plugin_, "espalier_test_scale", "Host", kScale);
    ASSERT_TRUE(status) << status.failure().message;
    calls = 0;
  }
};

TEST_P(FfiTest, ScalesOnOneDevice) {
  const auto four = client(4);
  const auto program = four->compile(one_device("3.0"), on_devices(1)).value_or_throw();
  const Counts targets = program.executable()
                             .optimized_program()
                             .value_or_throw()
                             .custom_call_targets()
                             .value_or_throw();
  EXPECT_EQ(targets.at("espalier_test_scale"), 1);
  const Buffer x = put(*four, HostArray::from<float>({3}, std::vector<float>{1, 2, 3}));
  const auto results = program.execute({{&x}}).value_or_throw();
  EXPECT_EQ(floats(results[0][0]), (std::vector<float>{3, 6, 9}));
  EXPECT_EQ(calls, 1);
}

TEST_P(FfiTest, RunsOncePerDeviceInsideAManualComputation) {
  const auto four = client(4);
  const auto program = four->compile(kManual, on_devices(4)).value_or_throw();
  std::vector<Buffer> shards;
  std::vector<std::vector<const Buffer*>> arguments;
  for (size_t device = 0; device < 4; ++device) {
    const auto value = static_cast<float>(device);
    shards.push_back(
        put(*four, HostArray::from<float>({2}, std::vector<float>{value, -value}), device));
  }
  for (const Buffer& shard : shards) arguments.push_back({&shard});
  const auto results = program.execute(arguments).value_or_throw();
  for (size_t device = 0; device < 4; ++device) {
    const auto value = static_cast<float>(device);
    EXPECT_EQ(floats(results[device][0]), (std::vector<float>{3 * value, -3 * value}));
  }
  EXPECT_EQ(calls, 4);
}

TEST_P(FfiTest, AHandlersErrorReachesTheResult) {
  const auto four = client(4);
  const auto program = four->compile(one_device("-1.0"), on_devices(1)).value_or_throw();
  const Buffer x = put(*four, HostArray(DType::kF32, {3}));
  const auto results = program.execute({{&x}});
  // The plugin may run at once or later.
  std::string message;
  if (!results) {
    message = results.failure().message;
  } else {
    const auto array = (*results)[0][0].to_host();
    ASSERT_FALSE(array);
    message = array.failure().message;
  }
  EXPECT_NE(message.find("s must not be negative"), std::string::npos) << message;
}

TEST_P(FfiTest, RegisteringTwice) {
  EXPECT_TRUE(register_ffi_handler(*plugin_, "espalier_test_scale", "Host", kScale));
  const auto other = register_ffi_handler(*plugin_, "espalier_test_scale", "Host", kOther);
  ASSERT_FALSE(other);
  EXPECT_EQ(other.failure().code, Code::kAlreadyExists);
  EXPECT_NE(other.failure().message.find("'espalier_test_scale'"), std::string::npos);
}

TEST_P(FfiTest, AnUnknownTargetIsAnError) {
  std::string text = one_device("1.0");
  text.replace(text.find("espalier_test_scale"), 19, "espalier_test_noone");
  const auto four = client(4);
  const auto program = four->compile(text, on_devices(1));
  if (program) {
    const Buffer x = put(*four, HostArray(DType::kF32, {3}));
    const auto results = program->execute({{&x}});
    EXPECT_FALSE(results && (*results)[0][0].to_host());
  } else {
    EXPECT_NE(program.failure().message.find("espalier_test_noone"), std::string::npos);
  }
}

INSTANTIATE_TEST_SUITE_P(Cpu, FfiTest, testing::ValuesIn(kPluginFiles), plugin_label);

}  // namespace
}  // namespace espalier::test
