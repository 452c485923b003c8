// `espalier verify`: equal to the reference for both attentions and on meshes, apart where a number
// was changed, and what it says of bad input.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "espalier/base/locate.h"
#include "espalier/checkpoint/safetensors.h"
#include "espalier/train/config.h"
#include "espalier/train/model_outputs.h"
#include "espalier/train/pretrained.h"
#include "tests/support/hf_folder.h"
#include "tests/support/program.h"
#include "tests/support/shared.h"
#include "tests/unit/data_testing.h"

namespace espalier::test {
namespace {
namespace fs = std::filesystem;

using Words = std::vector<std::string>;

// A compiled program is kept for the whole test, as a user's would be.
Ended verify(const TemporaryFolder& folder, const fs::path& hf, const fs::path& reference,
             const Words& set = {}) {
  Words words = {"verify", "--hf", hf.string(), "--reference", reference.string()};
  for (const std::string& value : set) {
    words.push_back("--set");
    words.push_back(value);
  }
  const ChildOptions options{.environment = {{"ESPALIER_CACHE", (folder / "cache").string()}}};
  Child child(words, folder / "child", options);
  return child.wait();
}

// The line of the output that begins with `what`.
std::string line_of(const Ended& ended, const std::string& what) {
  size_t at = ended.out.find("\n" + what + " ");
  if (at == std::string::npos) return "no line '" + what + "' in:\n" + ended.out + ended.err;
  ++at;
  return ended.out.substr(at, ended.out.find('\n', at) - at);
}

void expect_line(const Ended& ended, const std::string& what, const Words& parts) {
  const std::string line = line_of(ended, what);
  for (const std::string& part : parts) {
    EXPECT_NE(line.find(part), std::string::npos) << "'" << part << "' is not in: " << line;
  }
}

const Words kLines = {"logits", "loss", "gradients", "greedy ids"};

class VerifyGolden : public testing::TestWithParam<Words> {
 protected:
  void SetUp() override {
    const auto found = shared_file("golden/gpt2");
    if (!found) GTEST_SKIP() << "no golden/gpt2 in the shared folder";
    const auto plugin = plugin_path("cpu");
    if (!plugin) GTEST_SKIP() << plugin.failure().message;
    golden_ = *found;
  }
  TemporaryFolder folder_;
  fs::path golden_;
};

TEST_P(VerifyGolden, EqualsTheReference) {
  const Ended ended = verify(folder_, golden_, golden_ / "reference.safetensors", GetParam());
  expect_ended(ended, 0, {});
  for (const std::string& what : kLines) expect_line(ended, what, {"  ok  ", "limit "});
}

INSTANTIATE_TEST_SUITE_P(
    Settings, VerifyGolden,
    testing::Values(Words{}, Words{"model.attention=flash", "model.layers=unroll"},
                    Words{"mesh.axes={data=4,tensor=2}"},
                    Words{"mesh.axes={data=4,tensor=2}", "model.attention=flash"},
                    Words{"mesh.axes={fsdp=8}"},
                    Words{"mesh.axes={fsdp=8}", "model.attention=flash", "model.layers=unroll"}));

// A random model of 50257 ids, which neither 2 nor 8 divides: the reference is of one device. Its
// rows are longer than a block of flash attention.
TEST(Verify, TheVocabularyIsPaddedOnMeshes) {
  const auto plugin = plugin_path("cpu");
  if (!plugin) GTEST_SKIP() << plugin.failure().message;
  const TemporaryFolder folder;
  Gpt2Config config;
  config.vocab_size = 50257;
  config.n_positions = 144;
  config.n_embd = 32;
  config.n_layer = 2;
  config.n_head = 8;
  write_hf_folder(folder / "hf", config, random_weights(config, 3));
  TensorMap reference;
  {
    const RunConfig run = load_hf_run_config(folder / "hf", {}).value_or_throw();
    const auto model = run.make_model(0);
    const auto runtime = Runtime::create({}).value_or_throw();
    std::vector<DeviceArray> params =
        load_pretrained(runtime, *run.model, model->params(), {}, folder / "hf").value_or_throw();
    std::vector<DeviceArray*> pointers;
    for (DeviceArray& array : params) pointers.push_back(&array);
    HostArray tokens(DType::kS32, {2, 136}), targets(DType::kS32, {2, 136});
    for (size_t i = 0; i < 272; ++i) {
      tokens.as<int32_t>()[i] = static_cast<int32_t>(i * 2187 % 50257);
      targets.as<int32_t>()[i] = static_cast<int32_t>((i + 1) * 2187 % 50257);
    }
    targets.as<int32_t>()[5] = 50256;  // the last id, beside the padding
    const ModelOutputs got =
        model_outputs(runtime, {*model, {}, DType::kF32}, pointers, tokens, targets)
            .value_or_throw();
    ASSERT_EQ(got.logits.dims(), (Dims{2, 136, 50257}));
    EXPECT_NEAR(got.loss, std::log(50257.0), 1.0);
    reference = {{"input_ids", tokens},
                 {"target_ids", targets},
                 {"logits", got.logits},
                 {"loss", HostArray::scalar<float>(static_cast<float>(got.loss))}};
    for (const auto& [name, gradient] : got.gradients) reference["grad." + name] = gradient;
    ASSERT_EQ(reference.at("grad.transformer.wte.weight").dims(), (Dims{50257, 32}));
  }
  write_tensors(folder / "reference.safetensors", reference);
  for (const Words& set : {Words{"mesh.axes={data=4,tensor=2}"}, Words{"mesh.axes={fsdp=8}"},
                           Words{"mesh.axes={tensor=8}"},
                           Words{"mesh.axes={data=4,tensor=2}", "model.attention=flash"}}) {
    const Ended ended = verify(folder, folder / "hf", folder / "reference.safetensors", set);
    expect_ended(ended, 0, {});
    for (const char* what : {"logits", "loss", "gradients"}) expect_line(ended, what, {"  ok  "});
    expect_line(ended, "greedy ids", {"not in the reference"});
  }
}

class VerifyApart : public VerifyGolden {
 protected:
  void SetUp() override {
    VerifyGolden::SetUp();
    if (IsSkipped()) return;
    reference_ = read_tensors(golden_ / "reference.safetensors");
    weights_ = read_tensors(golden_ / "model.safetensors");
  }
  Ended run() {
    write_tensors(folder_ / "reference.safetensors", reference_);
    fs::create_directories(folder_ / "hf");
    fs::copy_file(golden_ / "config.json", folder_ / "hf" / "config.json",
                  fs::copy_options::skip_existing);
    write_tensors(folder_ / "hf" / "model.safetensors", weights_);
    return verify(folder_, folder_ / "hf", folder_ / "reference.safetensors");
  }
  TensorMap reference_, weights_;
};

TEST_F(VerifyApart, NamesEachPlace) {
  reference_["logits"].as<float>()[(2 * 40 + 1) * 307 + 7] += 1e-4f;
  reference_["loss"].as<float>()[0] += 1e-5f;
  reference_["grad.transformer.h.1.mlp.c_fc.weight"].as<float>()[3 * 192 + 5] += 1e-2f;
  reference_["greedy_ids"].as<int32_t>()[9] = 28;
  const Ended ended = run();
  expect_ended(ended, 1, {"differs from", "logits, loss, gradients, greedy ids"});
  expect_line(ended, "logits", {"APART", "0.0001", "[2, 1, 7]", "limit 2e-05"});
  expect_line(ended, "loss", {"APART", "1e-05", "limit 1e-06"});
  expect_line(ended, "gradients", {"APART", "transformer.h.1.mlp.c_fc.weight [3, 5]"});
  expect_line(ended, "greedy ids", {"APART", "token 9", "27 (reference 28)"});
}

TEST_F(VerifyApart, SeesOtherWeights) {
  weights_["transformer.h.2.attn.c_proj.bias"].as<float>()[11] += 0.01f;
  const Ended ended = run();
  expect_ended(ended, 1, {"differs from"});
  for (const char* what : {"logits", "loss", "gradients"}) expect_line(ended, what, {"APART"});
}

TEST_F(VerifyApart, NotANumberIsApart) {
  weights_["transformer.wpe.weight"].as<float>()[0] = std::numeric_limits<float>::quiet_NaN();
  const Ended ended = run();
  expect_ended(ended, 1, {"differs from"});
  for (const char* what : {"logits", "loss", "gradients"}) expect_line(ended, what, {"APART"});
}

// Also where later gradients are good, and where the reference itself is not finite.
TEST_F(VerifyApart, GradientsThatAreNotFiniteAreApart) {
  const TensorMap good = reference_;
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float value : {std::numeric_limits<float>::quiet_NaN(), infinity, -infinity}) {
    for (const char* name : {"grad.transformer.wte.weight", "grad.transformer.ln_f.bias"}) {
      reference_ = good;
      reference_[name] = good.at(name).clone();
      reference_[name].as<float>()[2] = value;
      const Ended ended = run();
      expect_ended(ended, 1, {"differs from", "gradients"});
      expect_line(ended, "gradients",
                  {"APART", "inf", std::string(name).substr(5),
                   Words{"[0, 2]", "[2]"}.at(good.at(name).dims().size() == 2 ? 0 : 1)});
    }
  }
}

TEST_F(VerifyApart, ComparesWhatIsThere) {
  for (const char* name : {"logits", "greedy_ids", "grad.transformer.h.0.ln_1.bias"}) {
    reference_.erase(name);
  }
  reference_["attention"] = HostArray(DType::kF32, {2});
  const Ended ended = run();
  expect_ended(ended, 0, {"unknown tensors", "'attention'"});
  EXPECT_EQ(ended.err.find("more"), std::string::npos) << ended.err;
  expect_line(ended, "logits", {" - ", "not in the reference"});
  expect_line(ended, "loss", {"  ok  "});
  expect_line(ended, "gradients",
              {"  ok  ", "39 of 40 parameters compared", "lacks transformer.h.0.ln_1.bias"});
  expect_line(ended, "greedy ids", {"not in the reference"});
}

TEST_F(VerifyApart, RefusesWrongReferences) {
  const TensorMap good = reference_;
  const auto refused = [&](const std::string& name, const HostArray& array, const Words& words) {
    reference_ = good;
    reference_[name] = array;
    const Ended ended = run();
    expect_ended(ended, 2, words);
    EXPECT_NE(ended.err.find("'" + name + "'"), std::string::npos) << ended.err;
  };
  refused("logits", HostArray(DType::kF32, {3, 40, 306}), {"[3, 40, 306]", "[3, 40, 307]"});
  refused("grad.transformer.wte.weight", HostArray(DType::kF32, {48, 307}), {"[307, 48]"});
  refused("grad.transformer.h.7.ln_1.bias", HostArray(DType::kF32, {48}), {"the model lacks"});
  refused("target_ids", HostArray(DType::kS32, {3, 39}), {"another shape than input_ids"});
  refused("input_ids", HostArray(DType::kF32, {3, 40}), {"token ids are integers"});
  refused("greedy_ids", HostArray(DType::kS32, {16}), {"a prompt and 16 tokens"});
  HostArray ids = good.at("input_ids").clone();
  ids.as<int32_t>()[4] = 307;
  refused("input_ids", ids, {"id 307", "0 to 306"});

  reference_ = {{"input_ids", good.at("input_ids")}};
  expect_ended(run(), 2, {"nothing to compare"});

  // The weights instead of a reference.
  reference_ = weights_;
  const Ended ended = run();
  expect_ended(ended, 2,
               {"nothing to compare", fmt::format("... and {} more", weights_.size() - 5)});
}

TEST_F(VerifyApart, NamesWrongWeights) {
  const TensorMap good = weights_;
  weights_.erase("transformer.h.1.ln_2.bias");
  weights_["transformer.h.1.ln_2.extra"] = HostArray(DType::kF32, {48});
  weights_["transformer.ln_f.weight"] = HostArray(DType::kF32, {47});
  expect_ended(
      run(), 2,
      {"unknown tensor 'transformer.h.1.ln_2.extra'", "missing tensor 'transformer.h.1.ln_2.bias'",
       "misshapen tensor 'transformer.ln_f.weight' is f32[47]"});

  // The output layer may be stored again, but not as another one.
  weights_ = good;
  weights_["lm_head.weight"] = good.at("transformer.wte.weight").clone();
  expect_ended(run(), 0, {});
  weights_["lm_head.weight"].as<float>()[307 * 48 - 1] += 1;
  expect_ended(run(), 2, {"'lm_head.weight'", "'transformer.wte.weight'"});

  // Names without the prefix, and masks that old files hold.
  weights_.clear();
  for (const auto& [name, array] : good) {
    weights_[name.substr(std::string_view("transformer.").size())] = array;
  }
  weights_["h.0.attn.bias"] = HostArray(DType::kF32, {1, 1, 48, 48});
  expect_ended(run(), 0, {});
}

TEST(Verify, NamesWhatIsMissing) {
  const TemporaryFolder folder;
  write_tensors(folder / "reference.safetensors", {{"loss", HostArray(DType::kF32, {})}});
  const fs::path reference = folder / "reference.safetensors";
  expect_ended(verify(folder, folder / "none", reference), 1, {"no folder", "gpt2-xl"});
  expect_ended(verify(folder, "gpt2-medium", reference,
                      {"train.weights_dir=" + (folder / "weights").string()}),
               1, {"espalier prepare weights gpt2-medium"});
  fs::create_directories(folder / "hf");
  expect_ended(verify(folder, folder / "hf", reference), 1, {"config.json", "Hugging Face"});
  folder.write("hf/config.json", "{\"model_type\": \"t5\"}");
  expect_ended(verify(folder, folder / "hf", reference), 1, {"t5", "gpt2", "config.json"});
  expect_ended(verify(folder, folder / "hf", folder / "other"), 1, {"other"});
}

}  // namespace
}  // namespace espalier::test
