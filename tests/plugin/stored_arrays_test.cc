// Arrays split over a mesh of devices, from and to files that hold them in another shape or element
// type.
#include <gtest/gtest.h>

#include <bit>
#include <nlohmann/json.hpp>
#include <numeric>

#include "espalier/checkpoint/arrays.h"
#include "espalier/checkpoint/weights_folder.h"
#include "tests/unit/data_testing.h"

namespace espalier {
namespace {

// D = 6, three parts, H = 4 heads of K = 2: as attention's weight, which files hold as (D, 3HK).
const Dims kDims = {6, 3, 4, 2}, kFile = {6, 24};
const PartitionSpec kSplitHeads = {{}, {}, {"tensor"}, {}};

HostArray counting(const Dims& dims) {
  HostArray out(DType::kF32, dims);
  auto values = out.as<float>();
  std::iota(values.begin(), values.end(), 1.0f);
  return out;
}

class StoredArrays : public testing::Test {
 protected:
  // data 2 x tensor 2; made once, since the plugin's globals do not outlive main().
  static const std::shared_ptr<Runtime>& runtime() {
    static const auto* made = new std::shared_ptr<Runtime>([] {
      RuntimeOptions options;
      options.mesh = Mesh({{"data", 2}, {"tensor", 2}});
      return Runtime::create(options).value_or_throw();
    }());
    return *made;
  }
  // A file of weights with one tensor, opened.
  WeightsFolder weights(const std::string& name, const HostArray& array) const {
    auto writer = SafetensorsWriter::create(folder_ / "model.safetensors",
                                            {{name, array.dtype(), array.dims()}})
                      .value_or_throw();
    writer.write(name, array).value_or_throw();
    writer.finish().value_or_throw();
    return WeightsFolder::open(folder_.path()).value_or_throw();
  }
  static StoredArray attention() {
    StoredArray stored;
    stored.names = {"w"};
    stored.dims = kDims;
    stored.stored_dims = kFile;
    return stored;
  }
  static Result<DeviceArray> load(const TensorSource& source, const StoredArray& stored,
                                  const Dims& dims, const PartitionSpec& spec, StoredType type) {
    return load_array(source, stored, runtime(), make_layout({DType::kF32, dims}, spec), type);
  }
  static void expect_values(const DeviceArray& array, const HostArray& expected) {
    const HostArray got = array.to_host().value_or_throw();
    ASSERT_EQ(got.dims(), expected.dims());
    EXPECT_EQ(std::memcmp(got.data(), expected.data(), expected.bytes()), 0);
  }

  TemporaryFolder folder_;
};

TEST_F(StoredArrays, AnotherShapeIsReadStraightToTheShards) {
  const WeightsFolder source = weights("w", counting(kFile));
  for (const PartitionSpec& spec :
       {PartitionSpec{}, kSplitHeads, PartitionSpec{{"data"}, {}, {"tensor"}, {}},
        PartitionSpec{{}, {}, {}, {"data"}}}) {
    const DeviceArray array =
        load(source, attention(), kDims, spec, StoredType::kSame).value_or_throw();
    expect_values(array, counting(kDims));
  }
  const DeviceArray split =
      load(source, attention(), kDims, kSplitHeads, StoredType::kSame).value_or_throw();
  EXPECT_EQ(split.bytes_on_device(0).value_or_throw(), 6U * 24 * 4 / 2);
}

TEST_F(StoredArrays, CheckpointsHoldTheFilesShapeAndAnotherMeshReadsThem) {
  const WeightsFolder source = weights("w", counting(kFile));
  const DeviceArray array =
      load(source, attention(), kDims, kSplitHeads, StoredType::kSame).value_or_throw();
  auto writer = CheckpointWriter::begin(folder_ / "checkpoints", 1, stored_tensors(attention()))
                    .value_or_throw();
  save_array(writer, attention(), array).value_or_throw();
  writer.commit(nlohmann::json::object()).value_or_throw();
  const auto reader = CheckpointReader::open(folder_ / "checkpoints", "1").value_or_throw();
  EXPECT_EQ(reader.find("w")->dims, kFile);
  const HostArray stored = reader.read("w").value_or_throw(), expected = counting(kFile);
  EXPECT_EQ(std::memcmp(stored.data(), expected.data(), expected.bytes()), 0);
  expect_values(
      load(reader, attention(), kDims, {{"data"}, {}, {}, {}}, StoredType::kSame).value_or_throw(),
      counting(kDims));
}

// The layers of a stack, each under its own name, in its own shape in the file.
TEST_F(StoredArrays, StackedLayersInAnotherShape) {
  const HostArray both = counting({2, 6, 24});
  auto writer =
      SafetensorsWriter::create(folder_ / "model.safetensors",
                                {{"h.0.w", DType::kF32, kFile}, {"h.1.w", DType::kF32, kFile}})
          .value_or_throw();
  for (int64_t i = 0; i < 2; ++i) {
    const auto bytes = std::span(both.data(), both.bytes()).subspan(both.bytes() / 2 * i);
    writer
        .write_piece("h." + std::to_string(i) + ".w", {0, 0}, kFile, bytes.first(both.bytes() / 2))
        .value_or_throw();
  }
  writer.finish().value_or_throw();
  StoredArray stored = attention();
  stored.names = {"h.0.w", "h.1.w"};
  stored.stacked = true;
  const WeightsFolder source = WeightsFolder::open(folder_.path()).value_or_throw();
  expect_values(
      load(source, stored, {2, 6, 3, 4, 2}, {{}, {}, {}, {"tensor"}, {}}, StoredType::kSame)
          .value_or_throw(),
      counting({2, 6, 3, 4, 2}));
}

// A vocabulary of 7, padded to 8 so that 2 devices share it, in each floating type.
TEST_F(StoredArrays, OtherFloatingTypesAreConvertedAndPaddingIsZero) {
  StoredArray stored;
  stored.names = {"wte"};
  stored.dims = {7, 3};
  HostArray half(DType::kF16, {7, 3});
  HostArray expected(DType::kF32, {8, 3});
  for (size_t i = 0; i < 21; ++i) {
    // 1 + i / 1024: the exponent of one, and i as its fraction.
    const auto bits = static_cast<uint16_t>(0x3c00 + i);
    std::memcpy(half.data() + 2 * i, &bits, 2);
    expected.as<float>()[i] = 1.0f + static_cast<float>(i) / 1024;
  }
  const auto read = [&](const HostArray& file) {
    std::filesystem::remove(folder_ / "model.safetensors");
    return load(weights("wte", file), stored, {8, 3}, {{"tensor"}, {}}, StoredType::kAnyFloat)
        .value_or_throw();
  };
  expect_values(read(half), expected);

  HostArray small = counting({8, 3});
  for (float& x : small.as<float>().last(3)) x = 0;
  const HostArray rows = counting({7, 3});  // up to 21: exact in every type
  for (const DType type : {DType::kBF16, DType::kF32, DType::kF64}) {
    expect_values(read(rows.converted(type)), small);
  }
}

TEST_F(StoredArrays, OtherTypesAndShapesAreNamed) {
  StoredArray stored;
  stored.names = {"w"};
  stored.dims = {4};
  const auto open = [&](const HostArray& array) {
    std::filesystem::remove(folder_ / "model.safetensors");
    return weights("w", array);
  };
  const HostArray floats = counting({4});
  // As checkpoints are read, no type but the array's own will do; integers never convert.
  expect_failure(load(open(floats.converted(DType::kBF16)), stored, {4}, {}, StoredType::kSame),
                 Code::kInvalidArgument, {"'w'", "bf16[4]", "f32[4]", folder_.path().string()});
  expect_failure(load(open(floats.converted(DType::kS32)), stored, {4}, {}, StoredType::kAnyFloat),
                 Code::kInvalidArgument, {"'w'", "i32[4]", "f32[4]"});
  expect_failure(load(open(counting({2, 2})), stored, {4}, {}, StoredType::kAnyFloat),
                 Code::kInvalidArgument, {"'w'", "f32[2, 2]", "f32[4]"});
  stored.names = {"v"};
  expect_failure(load(open(floats), stored, {4}, {}, StoredType::kAnyFloat), Code::kNotFound,
                 {"'v'", "'w'"});
  // A shape in the file that cannot be the array's.
  stored.names = {"w"};
  stored.stored_dims = {2, 3};
  expect_failure(load(open(counting({2, 3})), stored, {4}, {}, StoredType::kAnyFloat),
                 Code::kInvalidArgument, {"'w'", "[2, 3]", "[4]"});
}

}  // namespace
}  // namespace espalier
