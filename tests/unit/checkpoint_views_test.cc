// Tensors read and written in another shape of the same bytes, in pieces.
#include <numeric>

#include "espalier/checkpoint/safetensors.h"
#include "tests/unit/checkpoint_fixture.h"
#include "tests/unit/data_testing.h"

namespace espalier {
namespace {

// Slices [.., h : h + count, ..] of the dim of heads of a (2, 3, 4, 2) array of counting numbers.
constexpr int64_t kRows = 2, kParts = 3, kHeads = 4, kSize = 2;
const Dims kView = {kRows, kParts, kHeads, kSize}, kFile = {kRows, kParts*kHeads*kSize};

std::vector<int32_t> heads(int64_t first, int64_t count) {
  std::vector<int32_t> out;
  for (int64_t r = 0; r < kRows; ++r)
    for (int64_t p = 0; p < kParts; ++p)
      for (int64_t h = first; h < first + count; ++h)
        for (int64_t k = 0; k < kSize; ++k)
          out.push_back(static_cast<int32_t>(((r * kParts + p) * kHeads + h) * kSize + k));
  return out;
}

template <class Writer>
Status write_heads(Writer& writer, const Dims& view, int64_t first, int64_t count) {
  const std::vector<int32_t> values = heads(first, count);
  return writer.write_view("t", view, {0, 0, first, 0}, {kRows, kParts, count, kSize},
                           std::as_bytes(std::span(values)));
}

void expect_counting(const TensorSource& source) {
  std::vector<int32_t> all(48), expected(48);
  std::iota(expected.begin(), expected.end(), 0);
  ASSERT_TRUE(source.read_slice("t", {0, 0}, kFile, std::as_writable_bytes(std::span(all))).ok());
  EXPECT_EQ(all, expected);
  for (int64_t first = 0; first < kHeads; ++first) {
    for (int64_t count = 1; count <= kHeads - first; ++count) {
      std::vector<int32_t> slice(static_cast<size_t>(kRows * kParts * count * kSize));
      ASSERT_TRUE(source
                      .read_view("t", kView, {0, 0, first, 0}, {kRows, kParts, count, kSize},
                                 std::as_writable_bytes(std::span(slice)))
                      .ok());
      EXPECT_EQ(slice, heads(first, count));
    }
  }
}

TEST(Views, PiecesOfAViewMakeTheTensor) {
  const TemporaryFolder folder;
  const auto path = folder / "f.safetensors";
  auto writer = SafetensorsWriter::create(path, {{"t", DType::kS32, kFile}}).value_or_throw();
  ASSERT_TRUE(write_heads(writer, kView, 1, 3).ok());
  ASSERT_TRUE(write_heads(writer, kView, 0, 1).ok());
  writer.finish().value_or_throw();
  const auto file = SafetensorsFile::open(path).value_or_throw();
  EXPECT_EQ(file.find("t")->dims, kFile);
  expect_counting(file);
}

TEST(Views, AnotherNumberOfElementsOrASecondViewIsRefused) {
  const TemporaryFolder folder;
  const auto path = folder / "f.safetensors";
  auto writer = SafetensorsWriter::create(path, {{"t", DType::kS32, kFile}}).value_or_throw();
  expect_failure(write_heads(writer, {kRows, kParts, kHeads, kSize + 1}, 0, 1),
                 Code::kInvalidArgument, {"'t'", "[2, 24]", "[2, 3, 4, 3]"});
  ASSERT_TRUE(write_heads(writer, kView, 0, 2).ok());
  const std::vector<int32_t> rest(24);
  expect_failure(writer.write_piece("t", {1, 0}, {1, 24}, std::as_bytes(std::span(rest))),
                 Code::kInvalidArgument, {"'t'", "[2, 3, 4, 2]", "[2, 24]"});
  expect_failure(writer.finish(), Code::kFailedPrecondition, {"'t'", "24 of its 48"});
  // In the view, pieces are seen to overlap.
  ASSERT_TRUE(write_heads(writer, kView, 1, 2).ok());
  expect_failure(writer.finish(), Code::kFailedPrecondition, {"'t'", "twice"});
}

TEST(Views, ReadingChecksShapeAndSlice) {
  const TemporaryFolder folder;
  const auto path = folder / "f.safetensors";
  auto writer = SafetensorsWriter::create(path, {{"t", DType::kS32, kFile}}).value_or_throw();
  ASSERT_TRUE(write_heads(writer, kView, 0, 4).ok());
  writer.finish().value_or_throw();
  const auto file = SafetensorsFile::open(path).value_or_throw();
  std::vector<std::byte> out(48 * 4);
  expect_failure(file.read_view("t", {2, 3, 4}, {0, 0, 0}, {2, 3, 4}, out), Code::kInvalidArgument,
                 {"'t'", "[2, 3, 4]"});
  expect_failure(file.read_view("t", kView, {0, 0, 1, 0}, kView, out), Code::kInvalidArgument,
                 {"does not lie inside"});
  expect_failure(file.read_view("u", kView, {0, 0, 0, 0}, kView, out), Code::kNotFound, {"'u'"});
  expect_failure(file.read_slice("u", {0}, {1}, out), Code::kNotFound, {"'u'", "'t'"});
}

TEST_F(CheckpointTest, CheckpointsTakeViewsToo) {
  auto writer =
      CheckpointWriter::begin(root_, 1, {{{"t", DType::kS32, kFile}, "model"}}).value_or_throw();
  ASSERT_TRUE(write_heads(writer, kView, 2, 2).ok());
  ASSERT_TRUE(write_heads(writer, kView, 0, 2).ok());
  writer.commit({{"seed", 1}}).value_or_throw();
  const auto reader = CheckpointReader::open(root_, "1").value_or_throw();
  EXPECT_EQ(reader.where(), (root_ / "1").string());
  expect_counting(reader);
}

}  // namespace
}  // namespace espalier
