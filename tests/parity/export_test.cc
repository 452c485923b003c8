// `espalier export`: the folder read back by `espalier verify`, by the safetensors package, and by
// transformers where they are installed.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "espalier/base/locate.h"
#include "espalier/checkpoint/safetensors.h"
#include "espalier/checkpoint/store.h"
#include "espalier/models/minigpt.h"
#include "espalier/train/config.h"
#include "espalier/train/model_outputs.h"
#include "tests/support/hf_folder.h"
#include "tests/support/output_of.h"
#include "tests/support/program.h"
#include "tests/support/shared.h"
#include "tests/unit/data_testing.h"

namespace espalier::test {
namespace {
namespace fs = std::filesystem;

using Words = std::vector<std::string>;

Ended run_program(const TemporaryFolder& folder, const Words& words) {
  const ChildOptions options{.environment = {{"ESPALIER_CACHE", (folder / "cache").string()}}};
  Child child(words, folder / "child", options);
  return child.wait();
}

Ended export_run(const TemporaryFolder& folder, const fs::path& out, const Words& more = {}) {
  Words words = {"export", "--run", (folder / "run").string(), "--out", out.string()};
  words.insert(words.end(), more.begin(), more.end());
  return run_program(folder, words);
}

// A checkpoint with these parameters, and as training writes it, more than them.
void write_checkpoint(const fs::path& run, int64_t step, TensorMap weights) {
  std::vector<CheckpointTensor> tensors;
  for (const auto& [name, array] : weights) {
    tensors.push_back({{name, array.dtype(), array.dims()}, "model"});
  }
  tensors.push_back({{"optimizer.m.transformer.ln_f.weight", DType::kF32, {2}}, "optimizer"});
  weights["optimizer.m.transformer.ln_f.weight"] = HostArray(DType::kF32, {2});
  CheckpointWriter writer =
      CheckpointWriter::begin(run / "checkpoints", step, tensors).value_or_throw();
  for (const auto& [name, array] : weights) writer.write(name, array).value_or_throw();
  writer.commit(nlohmann::json::object(), {.best = step == 1}).value_or_throw();
}

// A run's folder as training leaves it.
void write_run(const fs::path& run, const RunConfig& config, const std::string& tokenizer,
               const TensorMap& weights) {
  fs::create_directories(run);
  write_file(run / "config.toml", to_toml(config)).value_or_throw();
  write_file(run / "tokenizer.txt", tokenizer).value_or_throw();
  write_checkpoint(run, 5, weights);
}

std::string char_tokenizer_text() { return char_tokenizer("abc ")->serialize().value_or_throw(); }

RunConfig small_run(const std::vector<std::string>& more = {}) {
  std::string text =
      "[model]\nname = \"gpt2\"\nvocab_size = 61\nn_positions = 16\nn_embd = 24\nn_layer = 2\n"
      "n_head = 4\nn_inner = 40\n[data]\nseq_len = 16\n";
  const TemporaryFolder folder;
  return load_run_config(folder.write("recipe.toml", text), more).value_or_throw();
}

Gpt2Config small_config() {
  Gpt2Config out;
  out.vocab_size = 61;
  out.n_positions = 16;
  out.n_embd = 24;
  out.n_layer = 2;
  out.n_head = 4;
  out.n_inner = 40;
  return out;
}

// input_ids and logits of a model with these weights, computed here: what the folder must give.
TensorMap reference_of(const RunConfig& config, const TensorMap& weights, int64_t length) {
  const auto model = config.make_model(0);
  const auto runtime = Runtime::create({}).value_or_throw();
  const TemporaryFolder folder;
  write_tensors(folder / "weights.safetensors", weights);
  const SafetensorsFile file =
      SafetensorsFile::open(folder / "weights.safetensors").value_or_throw();
  std::vector<DeviceArray> params =
      load_params(runtime, model->params(), {}, file).value_or_throw();
  std::vector<DeviceArray*> pointers;
  for (DeviceArray& array : params) pointers.push_back(&array);
  HostArray ids(DType::kS32, {2, length});
  for (size_t i = 0; i < ids.as<int32_t>().size(); ++i) {
    ids.as<int32_t>()[i] = static_cast<int32_t>(i * 17 % static_cast<size_t>(model->vocab_size()));
  }
  const ModelOutputs got =
      model_outputs(runtime, {*model, {}, DType::kF32}, pointers, ids, ids).value_or_throw();
  return {{"input_ids", ids}, {"logits", got.logits}};
}

std::string script(const std::string& name) {
  return "'" + (fs::path(ESPALIER_SOURCE_DIR) / "tests" / "python" / name).string() + "'";
}

// What transformers say of a folder; "" where they are not there.
std::string transformers_say(const fs::path& folder, const fs::path& reference,
                             const std::string& text = "") {
  const char* python = std::getenv("ESPALIER_TORCH_PYTHON");
  if (python == nullptr) return "";
  std::string command = "'" + std::string(python) + "' " + script("transformers_peer.py") + " '" +
                        folder.string() + "' '" + reference.string() + "'";
  if (!text.empty()) command += " '" + text + "'";
  return output_of(command + " 2>/dev/null");
}

void expect_same_logits(const std::string& said) {
  EXPECT_NE(said.find("missing 0\n"), std::string::npos) << said;
  EXPECT_NE(said.find("unexpected 0\n"), std::string::npos) << said;
  const size_t at = said.find("logits ");
  ASSERT_NE(at, std::string::npos) << said;
  const double difference = std::stod(said.substr(at + 7));
  EXPECT_LE(difference, 1e-4);
  testing::Test::RecordProperty("logits_difference", std::to_string(difference));
}

class ExportTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto plugin = plugin_path("cpu");
    if (!plugin) GTEST_SKIP() << plugin.failure().message;
  }
  fs::path out() const { return folder_ / "hf"; }
  TemporaryFolder folder_;
};

constexpr const char* kNoTransformers =
    "transformers are not compared: ESPALIER_TORCH_PYTHON names no Python that has them";

TEST_F(ExportTest, TheGoldenModelComesBackWhole) {
  const auto golden = shared_file("golden/gpt2");
  if (!golden) GTEST_SKIP() << "no golden/gpt2 in the shared folder";
  const RunConfig config = load_hf_run_config(*golden, {"data.seq_len=48"}).value_or_throw();
  const TensorMap weights = read_tensors(*golden / "model.safetensors");
  write_run(folder_ / "run", config, char_tokenizer_text(), weights);
  expect_ended(export_run(folder_, out()), 0, {"step 5", out().string()});
  expect_ended(run_program(folder_, {"verify", "--hf", out().string(), "--reference",
                                     (*golden / "reference.safetensors").string()}),
               0, {"logits      ok", "loss        ok", "gradients   ok", "greedy ids  ok"});
  const TensorMap stored = read_tensors(out() / "model.safetensors");
  ASSERT_EQ(stored.size(), weights.size());
  for (const auto& [name, array] : weights) {
    ASSERT_TRUE(stored.contains(name)) << name;
    ASSERT_EQ(stored.at(name).dims(), array.dims()) << name;
    EXPECT_EQ(std::memcmp(stored.at(name).data(), array.data(), array.bytes()), 0) << name;
  }
  const std::string said = transformers_say(out(), *golden / "reference.safetensors");
  if (said.empty()) GTEST_SKIP() << kNoTransformers;
  expect_same_logits(said);
}

TEST_F(ExportTest, AModelWithoutBiasesGetsZeros) {
  Gpt2Config small = small_config();
  small.bias = false;
  small.activation = "gelu";
  const RunConfig config = small_run({"model.bias=false", "model.activation=\"gelu\""});
  const TensorMap weights = random_weights(small, 1);
  write_run(folder_ / "run", config, char_tokenizer_text(), weights);
  expect_ended(export_run(folder_, out()), 0, {});
  const TensorMap stored = read_tensors(out() / "model.safetensors");
  EXPECT_EQ(stored.size(), 12u * 2 + 2 + 2);
  for (const float x : stored.at("transformer.h.1.attn.c_attn.bias").as<float>()) EXPECT_EQ(x, 0);
  const fs::path reference = folder_ / "reference.safetensors";
  write_tensors(reference, reference_of(config, weights, 16));
  expect_ended(
      run_program(folder_, {"verify", "--hf", out().string(), "--reference", reference.string()}),
      0, {"logits      ok"});
  const std::string said = transformers_say(out(), reference);
  if (said.empty()) GTEST_SKIP() << kNoTransformers;
  expect_same_logits(said);
}

TEST_F(ExportTest, PythonsSafetensorsReadTheFile) {
  const char* set = std::getenv("ESPALIER_TEST_PYTHON");
  const std::string python =
      set ? set
          : (fs::path(ESPALIER_SOURCE_DIR) / ".deps" / "test-venv" / "bin" / "python").string();
  if (std::system(("'" + python + "' -c 'import safetensors.numpy' 2>/dev/null").c_str()) != 0) {
    GTEST_SKIP() << "no Python with safetensors at " << python << "; set ESPALIER_TEST_PYTHON";
  }
  write_run(folder_ / "run", small_run(), char_tokenizer_text(), random_weights(small_config(), 2));
  expect_ended(export_run(folder_, out()), 0, {});
  const SafetensorsFile file = SafetensorsFile::open(out() / "model.safetensors").value_or_throw();
  EXPECT_EQ(file.metadata().at("format"), "pt");
  std::map<std::string, std::string> lines;
  for (const TensorInfo& t : file.tensors()) {
    const auto bytes = file.view(t.name).value_or_throw();
    std::string shape;
    for (const int64_t d : t.dims) shape += (shape.empty() ? "" : ",") + std::to_string(d);
    lines[t.name] = t.name + " F32 [" + shape + "] " +
                    digest_of({reinterpret_cast<const char*>(bytes.data()), bytes.size()}).sha256 +
                    "\n";
  }
  std::string expected;
  for (const auto& [name, line] : lines) expected += line;
  EXPECT_EQ(output_of("'" + python + "' " + script("safetensors_peer.py") + " read '" +
                      file.path().string() + "'"),
            expected);
}

TEST_F(ExportTest, TheTokenizerOfGpt2InItsOwnForm) {
  const auto tokenizer = load_tokenizer("gpt2");
  if (!tokenizer) GTEST_SKIP() << tokenizer.failure().message;
  Gpt2Config small = small_config();
  small.vocab_size = 50257;
  const RunConfig config = small_run({"model.vocab_size=50257"});
  const TensorMap weights = random_weights(small, 4);
  write_run(folder_ / "run", config, "gpt2", weights);
  expect_ended(export_run(folder_, out()), 0, {"tokenizer: gpt2"});
  const auto vocabulary = nlohmann::json::parse(read_file(out() / "vocab.json").value_or_throw());
  EXPECT_EQ(vocabulary.size(), 50257u);
  EXPECT_EQ(vocabulary.at("\u0120the"), 262);
  EXPECT_EQ(vocabulary.at("<|endoftext|>"), 50256);
  const std::string merges = read_file(out() / "merges.txt").value_or_throw();
  EXPECT_EQ(merges.substr(0, 29), "#version: 0.2\n\u0120 t\n\u0120 a\nh e\ni");
  EXPECT_EQ(std::count(merges.begin(), merges.end(), '\n'), 50001);

  const std::string text =
      "Hello world!  It's\t\n\n\u00e9t\u00e9 \U0001f600 \u4f60\u597d 12345 don't<|endoftext|>x   ";
  const fs::path reference = folder_ / "reference.safetensors";
  write_tensors(reference, reference_of(config, weights, 8));
  const std::string said =
      transformers_say(out(), reference, folder_.write("text.txt", text).string());
  if (said.empty()) GTEST_SKIP() << kNoTransformers;
  expect_same_logits(said);
  std::string ids = "ids";
  for (const int32_t id : (*tokenizer)->encode(text)) ids += " " + std::to_string(id);
  EXPECT_NE(said.find(ids + "\n"), std::string::npos) << said << "\nwanted " << ids;
}

TEST_F(ExportTest, TakesTheCheckpointThatIsAskedFor) {
  const TensorMap first = random_weights(small_config(), 5),
                  last = random_weights(small_config(), 6);
  write_run(folder_ / "run", small_run(), char_tokenizer_text(), last);
  write_checkpoint(folder_ / "run", 1, first);
  write_checkpoint(folder_ / "run", 9, last);
  const auto first_number = [&](const fs::path& folder) {
    const TensorMap stored = read_tensors(folder / "model.safetensors");
    return stored.at("transformer.wpe.weight").as<float>()[0];
  };
  const std::string name = "transformer.wpe.weight";
  expect_ended(export_run(folder_, folder_ / "a"), 0, {"step 9"});
  EXPECT_EQ(first_number(folder_ / "a"), last.at(name).as<float>()[0]);
  expect_ended(export_run(folder_, folder_ / "b/", {"--checkpoint", "best"}), 0, {"step 1"});
  EXPECT_EQ(first_number(folder_ / "b"), first.at(name).as<float>()[0]);
  expect_ended(export_run(folder_, folder_ / "c", {"--checkpoint", "1"}), 0, {"step 1"});
  EXPECT_EQ(first_number(folder_ / "c"), first.at(name).as<float>()[0]);
  expect_ended(export_run(folder_, folder_ / "d", {"--checkpoint", "4"}), 1, {"4"});
  EXPECT_FALSE(fs::exists(folder_ / "d"));
}

TEST_F(ExportTest, RefusesWhatItCannotDo) {
  const TensorMap weights = random_weights(small_config(), 7);
  write_run(folder_ / "run", small_run(), char_tokenizer_text(), weights);

  // A folder that holds something stays as it is; an empty one is taken.
  folder_.write("child.keep", "");
  fs::create_directories(folder_ / "full");
  folder_.write("full/mine", "x");
  expect_ended(export_run(folder_, folder_ / "full"), 1, {"not an empty folder", "--out"});
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_ / "full"), fs::directory_iterator()), 1);
  expect_ended(export_run(folder_, folder_ / "child.keep"), 1, {"not an empty folder"});
  fs::create_directories(folder_ / "empty");
  expect_ended(export_run(folder_, folder_ / "empty"), 0, {});
  expect_ended(export_run(folder_, folder_ / "empty"), 1, {"not an empty folder"});

  const auto refused = [&](const std::string& toml, int status, const Words& words) {
    folder_.write("run/config.toml", toml);
    expect_ended(export_run(folder_, out()), status, words);
    EXPECT_FALSE(fs::exists(out()));
  };
  refused("[model]\nname = \"minigpt\"\n", 1, {"minigpt", "no Hugging Face form"});
  refused(to_toml(small_run({"model.positions=\"rope\""})), 1, {"model.positions", "rope"});
  refused(to_toml(small_run({"model.n_embd=32"})), 2, {"misshapen tensor", "f32[24]", "f32[32]"});
  for (const auto& entry : fs::directory_iterator(folder_.path())) {
    EXPECT_EQ(entry.path().filename().string().find(".tmp"), std::string::npos) << entry.path();
  }
}

}  // namespace
}  // namespace espalier::test
