// Arrays between host and devices, and the events of the transfers.
#include "espalier/pjrt/buffer.h"

#include <gtest/gtest.h>

#include <future>
#include <numeric>

#include "tests/plugin/pjrt_test_support.h"

namespace espalier::test {
namespace {

TEST_P(PluginTest, RoundTripOfEveryType) {
  const auto one = client(4);
  for (DType dtype :
       {DType::kBool, DType::kS8, DType::kS16, DType::kS32, DType::kS64, DType::kU8, DType::kU16,
        DType::kU32, DType::kU64, DType::kF16, DType::kBF16, DType::kF32, DType::kF64}) {
    HostArray array(dtype, {3, 5});
    for (size_t i = 0; i < array.bytes(); ++i) array.data()[i] = static_cast<std::byte>(i % 2);
    const Buffer buffer = put(*one, array, 2);
    EXPECT_EQ(buffer.dtype().value_or_throw(), dtype);
    EXPECT_EQ(buffer.dims().value_or_throw(), (Dims{3, 5}));
    EXPECT_GE(buffer.on_device_bytes().value_or_throw(), array.bytes());
    EXPECT_EQ(buffer.device().value_or_throw()->id(), 2);
    const HostArray back = buffer.to_host().value_or_throw();
    ASSERT_EQ(back.bytes(), array.bytes());
    EXPECT_EQ(std::memcmp(back.data(), array.data(), array.bytes()), 0) << hlo_name(dtype);
  }
}

TEST_P(PluginTest, ScalarsAndEmptyArrays) {
  const auto one = client(4);
  EXPECT_EQ(floats(put(*one, HostArray::scalar(2.5f))), (std::vector<float>{2.5f}));
  const Buffer empty = put(*one, HostArray(DType::kF32, {0, 4}));
  EXPECT_EQ(empty.to_host().value_or_throw().dims(), (Dims{0, 4}));
}

TEST_P(PluginTest, ZeroCopyTellsWhenTheMemoryIsFree) {
  const auto one = client(4);
  HostArray array(DType::kF32, {1024});
  std::iota(array.as<float>().begin(), array.as<float>().end(), 0.0f);
  auto transfer = one->buffer_from_host(array.data(), DType::kF32, array.dims(), one->devices()[0],
                                        HostSemantics::kZeroCopy)
                      .value_or_throw();
  EXPECT_EQ(transfer.buffer.unsafe_pointer().value_or_throw(),
            reinterpret_cast<uintptr_t>(array.data()));
  EXPECT_FALSE(transfer.done.ready().value_or_throw());
  EXPECT_EQ(floats(transfer.buffer)[1000], 1000.0f);
  transfer.buffer = Buffer();
  EXPECT_TRUE(transfer.done.await());
}

TEST_P(PluginTest, UntilTransferCompletesCallsBack) {
  const auto one = client(4);
  const HostArray array = HostArray::from<float>({4}, std::vector<float>{1, 2, 3, 4});
  auto transfer = one->buffer_from_host(array.data(), DType::kF32, array.dims(), one->devices()[0],
                                        HostSemantics::kUntilTransferCompletes)
                      .value_or_throw();
  std::promise<bool> called;
  ASSERT_TRUE(transfer.done.on_ready([&](Status status) { called.set_value(status.ok()); }));
  EXPECT_TRUE(called.get_future().get());
  EXPECT_EQ(floats(transfer.buffer), (std::vector<float>{1, 2, 3, 4}));
}

TEST_P(PluginTest, CopiesToDevicesAndMemories) {
  const auto two = client(4);
  const HostArray array = HostArray::from<float>({2}, std::vector<float>{1, 2});
  const Buffer buffer = put(*two, array, 0);
  const Buffer there = buffer.copy_to_device(two->devices()[1]).value_or_throw();
  EXPECT_EQ(there.device().value_or_throw()->id(), 1);
  EXPECT_EQ(floats(there), (std::vector<float>{1, 2}));

  const Memory* host = two->devices()[0].memory("unpinned_host").value_or_throw();
  const Buffer on_host = buffer.copy_to_memory(*host).value_or_throw();
  EXPECT_EQ(on_host.memory().value_or_throw(), host);
  EXPECT_EQ(floats(on_host), (std::vector<float>{1, 2}));
  const Buffer direct = two->buffer_from_host(array, two->devices()[0], host).value_or_throw();
  EXPECT_EQ(direct.memory().value_or_throw(), host);
}

TEST_P(PluginTest, RemoveDeletes) {
  const auto one = client(4);
  Buffer buffer = put(*one, HostArray::scalar(1.0f));
  EXPECT_FALSE(buffer.is_deleted().value_or_throw());
  ASSERT_TRUE(buffer.remove());
  EXPECT_TRUE(buffer.is_deleted().value_or_throw());
  const auto gone = buffer.to_host();
  ASSERT_FALSE(gone);
  EXPECT_FALSE(gone.failure().message.empty());
}

TEST_P(PluginTest, HostMemoryTooSmallIsAnError) {
  const auto one = client(4);
  const Buffer buffer = put(*one, HostArray(DType::kF32, {8}));
  float small[2];
  const auto event = buffer.to_host(small, sizeof(small));
  ASSERT_FALSE(event && event->await());
}

TEST_P(PluginTest, BufferMovesAndOutlivesTheCallersClient) {
  auto mine = Client::create(plugin_).value_or_throw();
  Buffer first = put(*mine, HostArray::scalar(3.0f));
  mine.reset();
  Buffer second = std::move(first);
  EXPECT_FALSE(first.valid());
  first = std::move(second);
  EXPECT_EQ(floats(first), (std::vector<float>{3.0f}));
}

TEST(EventTest, EmptyEventIsComplete) {
  Event event;
  EXPECT_TRUE(event.await());
  EXPECT_TRUE(event.ready().value_or_throw());
  bool called = false;
  ASSERT_TRUE(event.on_ready([&](Status status) { called = status.ok(); }));
  EXPECT_TRUE(called);
}

INSTANTIATE_TEST_SUITE_P(Cpu, PluginTest, testing::ValuesIn(kPluginFiles), plugin_label);

}  // namespace
}  // namespace espalier::test
