// Reading and writing safetensors files: round trips, slices, and every kind of damage.
#include "espalier/checkpoint/safetensors.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <numeric>

namespace espalier {
namespace {
namespace fs = std::filesystem;

class SafetensorsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("espalier_safetensors_" + std::to_string(::getpid()));
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    file_ = folder_ / "file.safetensors";
  }
  void TearDown() override { fs::remove_all(folder_); }

  // A file with a header as given and `data` bytes behind it.
  Result<SafetensorsFile> open_raw(const std::string& header, size_t data) {
    std::string text(8, '\0');
    const uint64_t length = header.size();
    std::memcpy(text.data(), &length, 8);
    EXPECT_TRUE(write_file(file_, text + header + std::string(data, 'x')).ok());
    return SafetensorsFile::open(file_);
  }
  void expect_damaged(const Result<SafetensorsFile>& opened, const std::string& part) {
    ASSERT_FALSE(opened.ok()) << "expected: " << part;
    EXPECT_EQ(opened.failure().code, Code::kDataLoss);
    EXPECT_NE(opened.failure().message.find(part), std::string::npos) << opened.failure().message;
    EXPECT_NE(opened.failure().message.find(file_.string()), std::string::npos);
  }

  fs::path folder_, file_;
};

HostArray counting(const Dims& dims) {
  HostArray out(DType::kS32, dims);
  auto values = out.as<int32_t>();
  std::iota(values.begin(), values.end(), 0);
  return out;
}

template <class T>
std::span<const std::byte> bytes_of(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

TEST_F(SafetensorsTest, RoundTripKeepsTypesShapesValuesAndMetadata) {
  const auto floats = HostArray::from<float>({2, 3}, {1, 2, 3, 4, 5, -0.5f});
  const auto half = floats.converted(DType::kBF16);
  const auto flag = HostArray::scalar(true);
  auto writer = SafetensorsWriter::create(file_,
                                          {{"flag", DType::kBool, {}},
                                           {"w", DType::kF32, {2, 3}},
                                           {"h", DType::kBF16, {2, 3}},
                                           {"none", DType::kS64, {4, 0}}},
                                          {{"format", "pt"}});
  ASSERT_TRUE(writer.ok()) << writer.failure().message;
  ASSERT_TRUE(writer->write("flag", flag).ok());
  ASSERT_TRUE(writer->write("h", half).ok());
  ASSERT_TRUE(writer->write("w", floats).ok());
  EXPECT_FALSE(fs::exists(file_));
  const auto digest = writer->finish();
  ASSERT_TRUE(digest.ok()) << digest.failure().message;
  EXPECT_EQ(digest->bytes, fs::file_size(file_));
  EXPECT_EQ(*digest, digest_of_file(file_).value_or_throw());

  const auto file = SafetensorsFile::open(file_);
  ASSERT_TRUE(file.ok()) << file.failure().message;
  // Wider types first, so that each tensor is aligned to its element.
  ASSERT_EQ(file->tensors().size(), 4u);
  EXPECT_EQ(file->tensors()[0], (TensorInfo{"none", DType::kS64, {4, 0}}));
  EXPECT_EQ(file->tensors()[1], (TensorInfo{"w", DType::kF32, {2, 3}}));
  EXPECT_EQ(file->tensors()[2], (TensorInfo{"h", DType::kBF16, {2, 3}}));
  EXPECT_EQ(file->tensors()[3], (TensorInfo{"flag", DType::kBool, {}}));
  EXPECT_EQ(file->metadata().at("format"), "pt");
  EXPECT_EQ(reinterpret_cast<uintptr_t>(file->view("w")->data()) % 4, 0u);
  EXPECT_EQ(std::memcmp(file->read("w")->data(), floats.data(), floats.bytes()), 0);
  EXPECT_EQ(std::memcmp(file->read("h")->data(), half.data(), half.bytes()), 0);
  EXPECT_TRUE(file->read("flag")->as<bool>()[0]);
  EXPECT_EQ(file->read("none")->dims(), (Dims{4, 0}));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()), 1);
}

TEST_F(SafetensorsTest, DigestIsSha256) {
  // FIPS 180-4's own example.
  EXPECT_EQ(digest_of("abc").sha256,
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST_F(SafetensorsTest, UnevenPiecesInAnyOrderMakeTheWholeTensor) {
  const HostArray whole = counting({3, 4, 5});
  auto writer = SafetensorsWriter::create(file_, {{"t", DType::kS32, {3, 4, 5}}});
  ASSERT_TRUE(writer.ok());
  // Every cut differs along each dimension: 2 + 1, 1 + 3, 2 + 3.
  const std::vector<std::pair<Dims, Dims>> pieces = {
      {{2, 1, 2}, {1, 3, 3}}, {{0, 0, 0}, {2, 1, 2}}, {{0, 1, 2}, {2, 3, 3}},
      {{2, 0, 0}, {1, 1, 2}}, {{0, 0, 2}, {2, 1, 3}}, {{2, 0, 2}, {1, 1, 3}},
      {{0, 1, 0}, {2, 3, 2}}, {{2, 1, 0}, {1, 3, 2}}};
  for (const auto& [offset, shape] : pieces) {
    std::vector<int32_t> values;
    for (int64_t i = 0; i < shape[0]; ++i) {
      for (int64_t j = 0; j < shape[1]; ++j) {
        for (int64_t k = 0; k < shape[2]; ++k) {
          values.push_back(
              static_cast<int32_t>(((offset[0] + i) * 4 + offset[1] + j) * 5 + offset[2] + k));
        }
      }
    }
    ASSERT_TRUE(writer->write_piece("t", offset, shape, bytes_of(values)).ok());
  }
  ASSERT_TRUE(writer->finish().ok());
  const auto file = SafetensorsFile::open(file_);
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(std::memcmp(file->read("t")->data(), whole.data(), whole.bytes()), 0);
}

TEST_F(SafetensorsTest, EverySliceReadsItsOwnElements) {
  auto writer = SafetensorsWriter::create(file_, {{"t", DType::kS32, {3, 2, 4}}});
  ASSERT_TRUE(writer->write("t", counting({3, 2, 4})).ok());
  ASSERT_TRUE(writer->finish().ok());
  const auto file = SafetensorsFile::open(file_).value_or_throw();
  int slices = 0;
  for (int64_t a = 0; a < 3; ++a)
    for (int64_t b = 0; b < 2; ++b)
      for (int64_t c = 0; c < 4; ++c)
        for (int64_t p = 1; p <= 3 - a; ++p)
          for (int64_t q = 1; q <= 2 - b; ++q)
            for (int64_t r = 1; r <= 4 - c; ++r) {
              std::vector<int32_t> out(static_cast<size_t>(p * q * r), -1);
              const auto bytes = std::as_writable_bytes(std::span(out));
              ASSERT_TRUE(file.read_slice("t", {a, b, c}, {p, q, r}, bytes).ok());
              size_t at = 0;
              for (int64_t i = 0; i < p; ++i)
                for (int64_t j = 0; j < q; ++j)
                  for (int64_t k = 0; k < r; ++k)
                    ASSERT_EQ(out[at++], ((a + i) * 2 + b + j) * 4 + c + k);
              ++slices;
            }
  EXPECT_EQ(slices, 6 * 3 * 10);
  ASSERT_TRUE(file.read_slice("t", {3, 0, 0}, {0, 2, 4}, {}).ok());
}

TEST_F(SafetensorsTest, RunsAreAsLongAsTheyCanBe) {
  const auto runs = [](const Dims& dims, const Dims& offset, const Dims& shape) {
    std::vector<std::pair<uint64_t, uint64_t>> out;
    EXPECT_TRUE(for_each_run({"t", DType::kS16, dims}, offset, shape,
                             [&](uint64_t at, uint64_t, uint64_t bytes) -> Status {
                               out.emplace_back(at, bytes);
                               return {};
                             })
                    .ok());
    return out;
  };
  using Runs = std::vector<std::pair<uint64_t, uint64_t>>;
  EXPECT_EQ(runs({4, 6}, {0, 0}, {4, 6}), (Runs{{0, 48}}));
  EXPECT_EQ(runs({4, 6}, {1, 0}, {2, 6}), (Runs{{12, 24}}));
  EXPECT_EQ(runs({4, 6}, {1, 2}, {2, 3}), (Runs{{16, 6}, {28, 6}}));
  EXPECT_EQ(runs({2, 3, 4}, {0, 1, 0}, {2, 2, 4}), (Runs{{8, 16}, {32, 16}}));
  EXPECT_EQ(runs({}, {}, {}), (Runs{{0, 2}}));
}

TEST_F(SafetensorsTest, BadSlicesAndNamesAreRefused) {
  auto writer = SafetensorsWriter::create(
      file_, {{"h.0.attn.weight", DType::kS32, {2, 2}}, {"h.0.mlp.weight", DType::kS32, {1}}});
  ASSERT_TRUE(writer.ok());
  const std::vector<int32_t> four(4);
  const auto expect = [](const Status& status, Code code, const std::string& part) {
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.failure().code, code);
    EXPECT_NE(status.failure().message.find(part), std::string::npos) << status.failure().message;
  };
  expect(writer->write_piece("h.0.attn.weigth", {0, 0}, {2, 2}, bytes_of(four)), Code::kNotFound,
         "the nearest names are 'h.0.attn.weight', 'h.0.mlp.weight'");
  const auto refused = Code::kInvalidArgument;
  expect(writer->write_piece("h.0.attn.weight", {1, 0}, {2, 2}, bytes_of(four)), refused,
         "slice at [1, 0] of shape [2, 2] does not lie inside");
  expect(writer->write_piece("h.0.attn.weight", {-1, 0}, {2, 2}, bytes_of(four)), refused,
         "does not lie inside");
  expect(writer->write_piece("h.0.attn.weight", {0}, {2}, bytes_of(four)), refused,
         "does not lie inside");
  expect(writer->write_piece("h.0.attn.weight", {0, 0}, {2, 1}, bytes_of(four)), refused,
         "needs 8 bytes, got 16");
  expect(writer->write("h.0.attn.weight", HostArray(DType::kF32, {2, 2})), refused,
         "was announced as I32 [2, 2], got F32 [2, 2]");

  const auto twice =
      SafetensorsWriter::create(file_, {{"a", DType::kS32, {1}}, {"a", DType::kS8, {1}}});
  ASSERT_FALSE(twice.ok());
  EXPECT_NE(twice.failure().message.find("used twice"), std::string::npos);
  const auto huge =
      SafetensorsWriter::create(file_, {{"a", DType::kS32, {int64_t{1} << 40, int64_t{1} << 40}}});
  ASSERT_FALSE(huge.ok());
  EXPECT_NE(huge.failure().message.find("63 bits"), std::string::npos);
  const auto not_text = SafetensorsWriter::create(file_, {{"\xff", DType::kS32, {1}}});
  ASSERT_FALSE(not_text.ok());
  EXPECT_NE(not_text.failure().message.find("UTF-8"), std::string::npos);
}

TEST_F(SafetensorsTest, FinishNeedsEveryElementExactlyOnce) {
  const std::vector<int32_t> two = {1, 2};
  auto writer = SafetensorsWriter::create(file_, {{"t", DType::kS32, {2, 3}}});
  ASSERT_TRUE(writer->write_piece("t", {0, 1}, {2, 1}, bytes_of(two)).ok());
  ASSERT_TRUE(writer->write_piece("t", {0, 0}, {2, 1}, bytes_of(two)).ok());
  const auto missing = writer->finish();
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.failure().code, Code::kFailedPrecondition);
  EXPECT_NE(missing.failure().message.find("4 of its 6 elements"), std::string::npos)
      << missing.failure().message;
  // As many elements as the tensor has, yet one column twice and one never.
  ASSERT_TRUE(writer->write_piece("t", {0, 0}, {2, 1}, bytes_of(two)).ok());
  const auto repeated = writer->finish();
  ASSERT_FALSE(repeated.ok());
  EXPECT_NE(repeated.failure().message.find("written twice at [0, 0]"), std::string::npos)
      << repeated.failure().message;
  { const auto destroyed = std::move(writer); }
  EXPECT_TRUE(fs::is_empty(folder_));
}

TEST_F(SafetensorsTest, TruncatedAndLengthenedFilesNameBothSizes) {
  auto writer = SafetensorsWriter::create(file_, {{"t", DType::kS32, {100}}});
  ASSERT_TRUE(writer->write("t", counting({100})).ok());
  ASSERT_TRUE(writer->finish().ok());
  const auto size = fs::file_size(file_);
  const std::string full = std::to_string(size);
  for (const uintmax_t left :
       {size - 1, size - 400, size - 401, uintmax_t{9}, uintmax_t{8}, uintmax_t{7}, uintmax_t{0}}) {
    fs::resize_file(file_, size);
    fs::resize_file(file_, left);
    const auto opened = SafetensorsFile::open(file_);
    // Below the header's end only the header's own need is known.
    const std::string expected = left >= size - 400 ? full
                                 : left >= 8        ? std::to_string(size - 400)
                                                    : "at least 8";
    expect_damaged(opened, "expected " +
                               std::string(left >= 8 && left < size - 400 ? "at least " : "") +
                               expected + " bytes");
    expect_damaged(opened, "it has " + std::to_string(left));
    // The cut bytes come back as zeros, so the file must be written anew for the next length.
    auto again = SafetensorsWriter::create(file_, {{"t", DType::kS32, {100}}});
    ASSERT_TRUE(again->write("t", counting({100})).ok() && again->finish().ok());
  }
  fs::resize_file(file_, size + 3);
  expect_damaged(SafetensorsFile::open(file_),
                 "expected " + full + " bytes, it has " + std::to_string(size + 3));
}

TEST_F(SafetensorsTest, HeadersThatLieAreRefused) {
  const auto one = [](const std::string& shape, const std::string& offsets) {
    return R"({"a":{"dtype":"F32","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}";
  };
  EXPECT_TRUE(open_raw(one("[2]", "[0,8]"), 8).ok());
  expect_damaged(open_raw("{oops", 0), "not JSON");
  expect_damaged(open_raw("[]", 0), "no object");
  expect_damaged(open_raw(one("[2]", "[0,4]"), 4), "takes 8 bytes");
  expect_damaged(open_raw(one("[2]", "[8,0]"), 8), "takes 8 bytes");
  expect_damaged(open_raw(one("[-2]", "[0,8]"), 8), "needs a dtype");
  expect_damaged(open_raw(one("[2.0]", "[0,8]"), 8), "needs a dtype");
  expect_damaged(open_raw(one("[2]", "[0]"), 8), "needs a dtype");
  expect_damaged(open_raw(one("[2]", "[4,12]"), 12), "leaving a gap after 0");
  expect_damaged(open_raw(one("[4611686018427387904,4]", "[0,0]"), 0), "63 bits");
  expect_damaged(open_raw(R"({"a":{"dtype":"F32","shape":[1]}})", 0), "needs a dtype");
  expect_damaged(open_raw(R"({"a":3})", 0), "needs a dtype");
  expect_damaged(open_raw(R"({"__metadata__":{"k":1}})", 0), "not an object of strings");
  const std::string a = R"("a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]})";
  const std::string overlapping = R"("b":{"dtype":"F32","shape":[1],"data_offsets":[2,6]})";
  expect_damaged(open_raw("{" + a + "," + a + "}", 4), "names 'a' twice");
  expect_damaged(open_raw("{" + a + "," + overlapping + "}", 6), "inside the tensor before it");
  ASSERT_TRUE(write_file(file_, "not a tensor file at all").ok());
  expect_damaged(SafetensorsFile::open(file_), "at most 100000000 are allowed");
  const auto other = open_raw(R"({"a":{"dtype":"F8_E4M3","shape":[1],"data_offsets":[0,1]}})", 1);
  ASSERT_FALSE(other.ok());
  EXPECT_EQ(other.failure().code, Code::kUnimplemented);
  EXPECT_NE(other.failure().message.find("F8_E4M3"), std::string::npos);
  EXPECT_EQ(SafetensorsFile::open(folder_ / "absent").failure().code, Code::kNotFound);
}

TEST_F(SafetensorsTest, FilesOfOtherProgramsLoad) {
  const char* set = std::getenv("ESPALIER_SHARED");
  const fs::path golden =
      (set ? fs::path(set) : fs::path(ESPALIER_SOURCE_DIR) / ".." / "shared") / "golden";
  if (!fs::exists(golden)) GTEST_SKIP() << "no reference files in " << golden;
  const auto gpt2 = SafetensorsFile::open(golden / "gpt2" / "model.safetensors");
  ASSERT_TRUE(gpt2.ok()) << gpt2.failure().message;
  EXPECT_EQ(gpt2->metadata().at("format"), "pt");
  ASSERT_NE(gpt2->find("transformer.h.0.attn.c_attn.weight"), nullptr);
  EXPECT_EQ(gpt2->find("transformer.h.0.attn.c_attn.weight")->dims, (Dims{48, 144}));
  const auto minigpt = SafetensorsFile::open(golden / "minigpt.safetensors");
  ASSERT_TRUE(minigpt.ok()) << minigpt.failure().message;
  const auto losses = minigpt->read("adam_losses");
  ASSERT_TRUE(losses.ok());
  ASSERT_EQ(losses->dims(), (Dims{10}));
  // Before the first step it is the loss that the same file gives by itself.
  EXPECT_FLOAT_EQ(losses->as<float>()[0], minigpt->read("loss")->as<float>()[0]);
}

}  // namespace
}  // namespace espalier
