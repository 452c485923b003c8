// Matching the names and shapes of a file's tensors with a model's.
#include "espalier/checkpoint/names.h"

#include "espalier/checkpoint/safetensors.h"
#include "tests/unit/data_testing.h"

namespace espalier {
namespace {

// The tensors' bytes count up from the length of the name.
SafetensorsFile make_file(const TemporaryFolder& folder, const std::vector<TensorInfo>& tensors) {
  auto writer = SafetensorsWriter::create(folder / "file.safetensors", tensors).value_or_throw();
  for (const TensorInfo& tensor : tensors) {
    HostArray array(tensor.dtype, tensor.dims);
    for (size_t i = 0; i < array.bytes(); ++i) {
      array.data()[i] = static_cast<std::byte>((tensor.name.size() + i) % 256);
    }
    writer.write(tensor.name, array).value_or_throw();
  }
  writer.finish().value_or_throw();
  return SafetensorsFile::open(folder / "file.safetensors").value_or_throw();
}

const std::vector<TensorInfo> kModel = {{"wte.weight", DType::kF32, {7, 4}},
                                        {"h.0.attn.c_attn.weight", DType::kF32, {4, 12}},
                                        {"h.0.attn.c_attn.bias", DType::kF32, {12}},
                                        {"ln_f.weight", DType::kF32, {4}}};

TEST(CheckNames, TheModelsTensorsInAnyFloatingTypeBesideIgnoredOnes) {
  const TemporaryFolder folder;
  std::vector<TensorInfo> tensors = kModel;
  tensors[1].dtype = DType::kF16;
  tensors.push_back({"h.0.attn.bias", DType::kF32, {1, 1, 3, 3}});
  tensors.push_back({"lm_head.weight", DType::kF32, {7, 4}});
  const SafetensorsFile file = make_file(folder, tensors);
  EXPECT_TRUE(check_names(file, kModel, {"*.attn.bias", "lm_head.weight"}).ok());
  expect_failure(check_names(file, kModel, {"*.attn.bias"}), Code::kInvalidArgument,
                 {file.where(), "unknown tensor 'lm_head.weight'"});
}

TEST(CheckNames, UnknownMissingAndMisshapenAreNamedWithTheNearest) {
  const TemporaryFolder folder;
  std::vector<TensorInfo> tensors = kModel;
  tensors[0].dims = {8, 4};
  tensors[1].name = "h.0.attn.c_attn.wight";
  tensors[2].dtype = DType::kS32;
  const SafetensorsFile file = make_file(folder, tensors);
  expect_failure(check_names(file, kModel), Code::kInvalidArgument,
                 {"unknown tensor 'h.0.attn.c_attn.wight'; nearest is 'h.0.attn.c_attn.weight'",
                  "missing tensor 'h.0.attn.c_attn.weight', f32[4, 12]; nearest is "
                  "'h.0.attn.c_attn.wight'",
                  "misshapen tensor 'wte.weight' is f32[8, 4], but the model has f32[7, 4]",
                  "misshapen tensor 'h.0.attn.c_attn.bias' is i32[12], but the model has f32[12]",
                  "config.json"});
}

TEST(CheckNames, FiveOfEachKindAndHowManyMore) {
  const TemporaryFolder folder;
  std::vector<TensorInfo> there, wanted;
  for (int i = 0; i < 8; ++i) there.push_back({"a" + std::to_string(i), DType::kF32, {1}});
  for (int i = 0; i < 6; ++i) wanted.push_back({"b" + std::to_string(i), DType::kF32, {1}});
  const Status status = check_names(make_file(folder, there), wanted);
  expect_failure(status, Code::kInvalidArgument,
                 {"unknown tensor 'a4'", "and 3 more unknown tensors", "missing tensor 'b4'",
                  "and 1 more missing tensors"});
  EXPECT_EQ(status.failure().message.find("'a5'"), std::string::npos);
}

TEST(RenamedSource, TensorsHaveOurNames) {
  const TemporaryFolder folder;
  std::vector<TensorInfo> tensors = kModel;
  for (TensorInfo& tensor : tensors) tensor.name = "transformer." + tensor.name;
  tensors.push_back({"lm_head.weight", DType::kF32, {7, 4}});
  const auto file = std::make_shared<SafetensorsFile>(make_file(folder, tensors));
  const auto names = names_without_prefix(*file, "transformer.");
  ASSERT_EQ(names.size(), 4U);
  EXPECT_EQ(names.at("ln_f.weight"), "transformer.ln_f.weight");
  const RenamedSource source = RenamedSource::create(file, names).value_or_throw();
  EXPECT_TRUE(check_names(source, kModel, {"lm_head.weight"}).ok());
  EXPECT_EQ(source.where(), file->where());
  EXPECT_EQ(source.find("wte.weight")->name, "wte.weight");
  EXPECT_EQ(source.find("transformer.wte.weight"), nullptr);
  EXPECT_NE(source.find("lm_head.weight"), nullptr);
  std::vector<std::byte> ours(8 * 4), theirs(8 * 4);
  ASSERT_TRUE(source.read_slice("wte.weight", {3, 0}, {2, 4}, ours).ok());
  ASSERT_TRUE(file->read_slice("transformer.wte.weight", {3, 0}, {2, 4}, theirs).ok());
  EXPECT_EQ(ours, theirs);
  expect_failure(source.read_slice("wte.wight", {0, 0}, {2, 4}, ours), Code::kNotFound,
                 {"'wte.wight'", "'wte.weight'"});
}

TEST(RenamedSource, NamesStayUnique) {
  const TemporaryFolder folder;
  const auto file = std::make_shared<SafetensorsFile>(
      make_file(folder, {{"a", DType::kF32, {1}}, {"b", DType::kF32, {1}}}));
  expect_failure(RenamedSource::create(file, {{"a", "b"}}), Code::kInvalidArgument,
                 {"'a' and 'b'", "both called 'a'"});
  expect_failure(RenamedSource::create(file, {{"x", "a"}, {"y", "a"}}), Code::kInvalidArgument,
                 {"'a'", "both 'x' and 'y'"});
  // A name that the source lacks renames nothing.
  const auto renamed = RenamedSource::create(file, {{"x", "a"}, {"y", "absent"}}).value_or_throw();
  EXPECT_EQ(renamed.tensors().size(), 2U);
  EXPECT_EQ(renamed.find("y"), nullptr);
}

}  // namespace
}  // namespace espalier
