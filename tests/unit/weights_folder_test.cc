// Folders of weights in Hugging Face's format: reading one file or shards, exporting, and every
// kind of wrong folder.
#include "espalier/checkpoint/weights_folder.h"

#include <nlohmann/json.hpp>

#include "tests/support/shared.h"
#include "tests/unit/checkpoint_fixture.h"
#include "tests/unit/data_testing.h"

namespace espalier {
namespace {
namespace fs = std::filesystem;
using Json = nlohmann::json;

const std::vector<TensorInfo> kFirst = {{"wte", DType::kF32, {7, 4}}, {"bias", DType::kBF16, {4}}};
const std::vector<TensorInfo> kSecond = {{"out", DType::kF16, {3, 5}}};

class WeightsFolderTest : public testing::Test {
 protected:
  void SetUp() override {
    put("a.safetensors", kFirst);
    put("b.safetensors", kSecond);
    put_index({{"wte", "a.safetensors"}, {"bias", "a.safetensors"}, {"out", "b.safetensors"}});
  }
  void put(const std::string& name, const std::vector<TensorInfo>& tensors) const {
    auto writer = SafetensorsWriter::create(folder_ / name, tensors).value_or_throw();
    for (const TensorInfo& t : tensors) writer.write(t.name, sample_tensor(t, 1)).value_or_throw();
    writer.finish().value_or_throw();
  }
  void put_index(const Json& weight_map) const {
    folder_.write("model.safetensors.index.json", Json{{"weight_map", weight_map}}.dump());
  }
  Result<WeightsFolder> open() const { return WeightsFolder::open(folder_.path()); }

  TemporaryFolder folder_;
};

// That the source has the sample of the tensor.
void expect_sample(const TensorSource& source, const TensorInfo& tensor) {
  ASSERT_NE(source.find(tensor.name), nullptr) << tensor.name;
  EXPECT_EQ(*source.find(tensor.name), tensor);
  const HostArray expected = sample_tensor(tensor, 1);
  HostArray read(tensor.dtype, tensor.dims);
  source
      .read_slice(tensor.name, Dims(tensor.dims.size(), 0), tensor.dims,
                  {read.data(), read.bytes()})
      .value_or_throw();
  EXPECT_EQ(std::memcmp(read.data(), expected.data(), expected.bytes()), 0) << tensor.name;
}

TEST_F(WeightsFolderTest, ReadsShardsByTheirIndex) {
  const WeightsFolder weights = open().value_or_throw();
  EXPECT_EQ(weights.tensors().size(), 3U);
  EXPECT_EQ(weights.folder(), folder_.path());
  for (const TensorInfo& t : kFirst) expect_sample(weights, t);
  for (const TensorInfo& t : kSecond) expect_sample(weights, t);
  expect_failure(weights.read_slice("wtf", {0}, {1}, {}), Code::kNotFound,
                 {"'wtf'", "'wte'", folder_.path().string()});
}

TEST_F(WeightsFolderTest, TheSingleFileComesFirst) {
  put("model.safetensors", kSecond);
  const WeightsFolder weights = open().value_or_throw();
  ASSERT_EQ(weights.tensors().size(), 1U);
  expect_sample(weights, kSecond[0]);
}

TEST_F(WeightsFolderTest, MissingShardsAreNamed) {
  fs::remove(folder_ / "b.safetensors");
  expect_failure(open(), Code::kNotFound, {"index.json", "'b.safetensors'", "missing"});
}

TEST_F(WeightsFolderTest, TheIndexAndTheShardsMustAgree) {
  const Json right = {
      {"wte", "a.safetensors"}, {"bias", "a.safetensors"}, {"out", "b.safetensors"}};
  Json map = right;
  map["more"] = "b.safetensors";
  put_index(map);
  expect_failure(open(), Code::kDataLoss, {"puts 'more' in 'b.safetensors'"});
  map = right;
  map.erase("bias");
  put_index(map);
  expect_failure(open(), Code::kDataLoss, {"does not list 'bias' of 'a.safetensors'"});
  // The same tensor in two shards.
  put("b.safetensors", {kSecond[0], kFirst[0]});
  put_index(right);
  expect_failure(open(), Code::kDataLoss, {"does not list 'wte' of 'b.safetensors'"});
}

TEST_F(WeightsFolderTest, DamagedFilesAreNamed) {
  const std::string index = "model.safetensors.index.json";
  folder_.write(index, "{\"weight_map\": ");
  expect_failure(open(), Code::kDataLoss, {index, "no index"});
  folder_.write(index, "{\"metadata\": {}}");
  expect_failure(open(), Code::kDataLoss, {index, "weight_map"});
  folder_.write(index, R"({"metadata": {"wte": 1, "wte": 2}, "weight_map":
      {"wte": "a.safetensors", "bias": "a.safetensors", "wte": "b.safetensors"}})");
  expect_failure(open(), Code::kDataLoss, {index, "tensor 'wte' twice"});
  put_index({{"wte", "../a.safetensors"}});
  expect_failure(open(), Code::kDataLoss, {index, "'../a.safetensors'"});
  folder_.write("model.safetensors", "short");
  expect_failure(open(), Code::kDataLoss, {"model.safetensors", "8 bytes"});
}

TEST_F(WeightsFolderTest, FoldersWithoutWeightsSayWhatToDo) {
  const TemporaryFolder other;
  expect_failure(WeightsFolder::open(other / "absent"), Code::kNotFound,
                 {"absent", "espalier prepare weights gpt2"});
  expect_failure(WeightsFolder::open(other.path()), Code::kNotFound,
                 {other.path().string(), "model.safetensors.index.json"});
  expect_failure(WeightsFolder::open(folder_ / "a.safetensors"), Code::kInvalidArgument,
                 {"a.safetensors", "is a file"});
  other.write("pytorch_model.bin", "pickle");
  expect_failure(WeightsFolder::open(other.path()), Code::kUnimplemented,
                 {"pytorch_model.bin", "pickle", "save_pretrained"});
}

TEST_F(WeightsFolderTest, TwoFilesOfOneSetShareNoName) {
  TensorFiles files;
  files.add(SafetensorsFile::open(folder_ / "a.safetensors").value_or_throw()).value_or_throw();
  expect_failure(files.add(SafetensorsFile::open(folder_ / "a.safetensors").value_or_throw()),
                 Code::kDataLoss, {"a.safetensors", "both"});
}

TEST_F(WeightsFolderTest, ExportsOneFileThatSaysWhoseLayoutItIs) {
  const fs::path target = folder_ / "new/export";
  write_weights_folder(target, open().value_or_throw(), {"out", "wte"}).value_or_throw();
  EXPECT_EQ(entry_names(target), std::set<std::string>{"model.safetensors"});
  const auto file = SafetensorsFile::open(target / "model.safetensors").value_or_throw();
  EXPECT_EQ(file.metadata().at("format"), "pt");
  const WeightsFolder weights = WeightsFolder::open(target).value_or_throw();
  EXPECT_EQ(weights.tensors().size(), 2U);
  expect_sample(weights, kFirst[0]);
  expect_sample(weights, kSecond[0]);
}

TEST_F(WeightsFolderTest, ExportsShardsAboveTheLimit) {
  const fs::path target = folder_ / "export";
  // wte has 112 bytes, bias 8, out 30: the first has a shard for itself, the others share one.
  write_weights_folder(target, open().value_or_throw(), {"wte", "bias", "out"}, 100)
      .value_or_throw();
  EXPECT_EQ(entry_names(target), (std::set<std::string>{"model-00001-of-00002.safetensors",
                                                        "model-00002-of-00002.safetensors",
                                                        "model.safetensors.index.json"}));
  const Json index =
      Json::parse(read_file(target / "model.safetensors.index.json").value_or_throw());
  EXPECT_EQ(index["metadata"]["total_size"], 150);
  EXPECT_EQ(index["weight_map"], (Json{{"wte", "model-00001-of-00002.safetensors"},
                                       {"bias", "model-00002-of-00002.safetensors"},
                                       {"out", "model-00002-of-00002.safetensors"}}));
  const WeightsFolder weights = WeightsFolder::open(target).value_or_throw();
  for (const TensorInfo& t : kFirst) expect_sample(weights, t);
  for (const TensorInfo& t : kSecond) expect_sample(weights, t);
}

TEST_F(WeightsFolderTest, LargeTensorsAreCopiedInSeveralPieces) {
  // Above 64 MiB, in rows that do not divide it; scalars and empty tensors beside it.
  const std::vector<TensorInfo> tensors = {{"large", DType::kU8, {5, 14 << 20}},
                                           {"scalar", DType::kF32, {}},
                                           {"none", DType::kF32, {0, 4}}};
  put("model.safetensors", tensors);
  write_weights_folder(folder_ / "export", open().value_or_throw(), {"large", "scalar", "none"})
      .value_or_throw();
  const WeightsFolder weights = WeightsFolder::open(folder_ / "export").value_or_throw();
  for (const TensorInfo& t : tensors) expect_sample(weights, t);
}

TEST_F(WeightsFolderTest, AFailedExportLeavesNoWeightsAndAnOldOneStays) {
  const WeightsFolder weights = open().value_or_throw();
  expect_failure(write_weights_folder(folder_ / "export", weights, {"wte", "absent"}),
                 Code::kNotFound, {"'absent'"});
  EXPECT_FALSE(fs::exists(folder_ / "export"));
  write_weights_folder(folder_ / "export", weights, {"wte"}).value_or_throw();
  expect_failure(write_weights_folder(folder_ / "export", weights, {"out"}), Code::kAlreadyExists,
                 {"export/model.safetensors", "another folder"});
  expect_failure(write_weights_folder(folder_.path(), weights, {"out"}), Code::kAlreadyExists,
                 {"index.json"});
  expect_sample(WeightsFolder::open(folder_ / "export").value_or_throw(), kFirst[0]);
}

TEST(WeightsFolder, ReadsWhatTransformersWrote) {
  const auto folder = shared_file("golden/gpt2");
  if (!folder) GTEST_SKIP() << "no golden/gpt2 in the folder of references";
  const WeightsFolder weights = WeightsFolder::open(*folder).value_or_throw();
  const TensorInfo* attention = weights.find("transformer.h.0.attn.c_attn.weight");
  ASSERT_NE(attention, nullptr);
  EXPECT_EQ(*attention, (TensorInfo{"transformer.h.0.attn.c_attn.weight", DType::kF32, {48, 144}}));
}

}  // namespace
}  // namespace espalier
