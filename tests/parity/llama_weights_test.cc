// Llama 3's weights through the program: `verify` with Hugging Face's names, and with torchtitan's
// and Meta's, whose rotary pairs lie otherwise; `export` and what transformers make of it; the same
// text from a run and from its export.
#include <gtest/gtest.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "espalier/base/locate.h"
#include "espalier/checkpoint/rotary_pairs.h"
#include "espalier/train/config.h"
#include "espalier/train/model_outputs.h"
#include "espalier/train/pretrained.h"
#include "tests/support/hf_folder.h"
#include "tests/support/output_of.h"
#include "tests/support/program.h"
#include "tests/support/shared.h"
#include "tests/unit/data_testing.h"

namespace espalier::test {
namespace {
namespace fs = std::filesystem;

using Words = std::vector<std::string>;

class LlamaWeights : public testing::Test {
 protected:
  void SetUp() override {
    const auto plugin = plugin_path("cpu");
    if (!plugin) GTEST_SKIP() << plugin.failure().message;
  }
  Ended run(Words words, const Words& set = {}) const {
    for (const std::string& value : set) {
      words.push_back("--set");
      words.push_back(value);
    }
    const ChildOptions options{.environment = {{"ESPALIER_CACHE", (folder_ / "cache").string()}}};
    Child child(words, folder_ / "child", options);
    return child.wait();
  }
  void expect_verified(const fs::path& hf, const fs::path& reference, const Words& set) const {
    expect_ended(run({"verify", "--hf", hf.string(), "--reference", reference.string()}, set), 0,
                 {"logits      ok", "loss        ok", "gradients   ok", "greedy ids  ok"});
  }
  TemporaryFolder folder_;
};

// Row i + j K / 2 of a head is row 2 i + j in the order of pairs.
HostArray with_pairs(const HostArray& halves, int64_t width) {
  HostArray out(halves.dtype(), halves.dims());
  const size_t row = halves.bytes() / static_cast<size_t>(halves.dims()[0]);
  for (int64_t h = 0; h < halves.dims()[0]; h += width) {
    for (int64_t i = 0; i < width / 2; ++i) {
      for (int64_t j = 0; j < 2; ++j) {
        std::memcpy(out.data() + static_cast<size_t>(h + 2 * i + j) * row,
                    halves.data() + static_cast<size_t>(h + i + j * (width / 2)) * row, row);
      }
    }
  }
  return out;
}

// Tensors with `prefix` before Hugging Face's names, under torchtitan's.
TensorMap titan_tensors(const TensorMap& tensors, const std::string& prefix, int64_t width) {
  TensorMap out;
  for (const auto& [name, array] : tensors) {
    if (!name.starts_with(prefix)) {
      out[name] = array;
      continue;
    }
    const std::string theirs = llama3_hf_names(name.substr(prefix.size())).at(1);
    const bool rotary = theirs.ends_with("wq.weight") || theirs.ends_with("wk.weight");
    out[prefix + theirs] = rotary ? with_pairs(array, width) : array;
  }
  return out;
}

TEST_F(LlamaWeights, VerifiesWithEitherNames) {
  const auto golden = shared_file("golden/llama");
  if (!golden) GTEST_SKIP() << "no golden/llama in the shared folder";
  const fs::path reference = *golden / "reference.safetensors";
  expect_verified(*golden, reference, {});
  expect_verified(*golden, reference, {"mesh.axes={fsdp=4, tensor=2}", "model.layers=unroll"});

  // Meta's description of the same model. What it cannot say is set.
  const nlohmann::json params = {
      {"dim", 64},          {"n_layers", 3},          {"n_heads", 8},
      {"n_kv_heads", 2},    {"vocab_size", 331},      {"ffn_dim_multiplier", 0.6},
      {"multiple_of", 16},  {"norm_eps", 1e-5},       {"rope_theta", 500000.0},
      {"max_seq_len", 128}, {"use_scaled_rope", true}};
  const fs::path titan = folder_ / "titan";
  fs::create_directories(titan);
  write_file(titan / "params.json", params.dump()).value_or_throw();
  write_tensors(titan / "model.safetensors",
                titan_tensors(read_tensors(*golden / "model.safetensors"), "", 8));
  write_tensors(folder_ / "titan.safetensors", titan_tensors(read_tensors(reference), "grad.", 8));
  const std::string original = "model.rope_scaling.original_max_position_embeddings=32";
  for (const Words& more : {Words{}, Words{"mesh.axes={fsdp=4, tensor=2}"},
                            Words{"mesh.axes={fsdp=2, tp=2}", "model.layers=unroll"}}) {
    Words set = more;
    set.push_back(original);
    expect_verified(titan, reference, set);
    expect_verified(titan, folder_ / "titan.safetensors", set);
  }

  // In the order of halves these are other weights.
  TensorMap wrong = read_tensors(titan / "model.safetensors");
  wrong["layers.1.attention.wk.weight"] = rotary_halves(wrong["layers.1.attention.wk.weight"], 8);
  write_tensors(titan / "model.safetensors", wrong);
  expect_ended(
      run({"verify", "--hf", titan.string(), "--reference", reference.string()}, {original}), 1,
      {"differs from"});
}

// Each piece of every array, split in each of its dims, is the same from either file.
TEST_F(LlamaWeights, PiecesAreReadFromEitherNames) {
  Llama3Config config;
  config.vocab_size = 61;
  config.dim = 24;
  config.n_layers = 2;
  config.n_heads = 4;
  config.n_kv_heads = 2;
  config.head_dim = 8;
  config.hidden_dim = 40;
  config.tie_embeddings = true;
  const TensorMap weights = random_weights(config, 5);
  write_hf_folder(folder_ / "hf", config, weights);
  // Tied weights may be stored twice.
  TensorMap titan = titan_tensors(weights, "", 8);
  titan["output.weight"] = titan["tok_embeddings.weight"].clone();
  titan["rope.freqs"] = HostArray(DType::kF32, {4});
  write_hf_folder(folder_ / "titan", config, titan);

  for (const std::string q : {R"(["tp", "", "fsdp"])", R"(["", ["fsdp", "tp"], ""])"}) {
    const Words set = {"mesh.axes={fsdp=2, tp=2}", "model.layers=unroll",
                       R"(sharding.params."*.q_proj.weight"=)" + q,
                       R"(sharding.params."*.k_proj.weight"=)" + q};
    std::vector<std::vector<HostArray>> read;
    for (const char* name : {"hf", "titan"}) {
      const RunConfig run = load_hf_run_config(folder_ / name, set).value_or_throw();
      const auto model = run.make_model(0);
      const auto runtime = Runtime::create({.mesh = run.make_mesh()}).value_or_throw();
      read.emplace_back();
      for (const DeviceArray& array :
           load_pretrained(runtime, *run.model, model->params(), run.make_rules(), folder_ / name)
               .value_or_throw()) {
        read.back().push_back(array.to_host().value_or_throw());
      }
    }
    ASSERT_EQ(read[0].size(), read[1].size());
    for (size_t i = 0; i < read[0].size(); ++i) {
      ASSERT_EQ(read[0][i].dims(), read[1][i].dims());
      EXPECT_EQ(std::memcmp(read[0][i].data(), read[1][i].data(), read[0][i].bytes()), 0) << i;
    }
  }

  // A copy that is none.
  titan["output.weight"].as<float>()[7] += 1;
  write_tensors(folder_ / "titan" / "model.safetensors", titan);
  const RunConfig run = load_hf_run_config(folder_ / "titan", {}).value_or_throw();
  const auto runtime = Runtime::create({}).value_or_throw();
  expect_failure(
      load_pretrained(runtime, *run.model, run.make_model(0)->params(), {}, folder_ / "titan"),
      Code::kInvalidArgument, {"output.weight", "model.embed_tokens.weight"});
}

TEST_F(LlamaWeights, RefusesMetasPickles) {
  fs::create_directories(folder_ / "meta");
  folder_.write("meta/params.json",
                R"({"dim": 64, "n_layers": 3, "n_heads": 8, "vocab_size": 331})");
  folder_.write("meta/consolidated.00.pth", "PK");
  folder_.write("reference.safetensors", "");
  write_tensors(folder_ / "reference.safetensors", {{"loss", HostArray(DType::kF32, {})}});
  expect_ended(run({"verify", "--hf", (folder_ / "meta").string(), "--reference",
                    (folder_ / "reference.safetensors").string()}),
               1, {"consolidated.00.pth", "pickle", "Hugging Face"});
}

TEST_F(LlamaWeights, ExportsWhatTransformersOpen) {
  const fs::path made = folder_ / "run", hf = folder_ / "hf";
  const std::string recipe = (fs::path(ESPALIER_SOURCE_DIR) / "recipes/llama3-debug.toml").string();
  const Words small = {"model.dim=32",
                       "model.n_layers=2",
                       "model.n_kv_heads=4",
                       "model.head_dim=4",
                       "model.max_seq_len=64",
                       "data.seq_len=32",
                       "train.steps=3",
                       "train.checkpoint_every=3",
                       "data.stories_count=200",
                       "sample.every=0",
                       "optimizer.warmup_steps=0",
                       "model.tie_embeddings=true",
                       "mesh.axes={fsdp=2, tp=2}",
                       "data.cache_dir=" + (folder_ / "tokens").string()};
  expect_ended(run({"train", recipe, "--run", made.string()}, small), 0, {});
  expect_ended(run({"export", "--run", made.string(), "--out", hf.string()}), 0, {"step 3"});

  const Words ask = {"--prompt", "Once", "--max-tokens", "40", "--seed", "3"};
  const auto text_from = [&](const std::string& option, const fs::path& from) {
    Words words = {"generate", option, from.string()};
    words.insert(words.end(), ask.begin(), ask.end());
    const Ended ended = run(words);
    expect_ended(ended, 0, {"Once"});
    return ended.out;
  };
  EXPECT_EQ(text_from("--run", made), text_from("--hf", hf));

  const RunConfig config = load_hf_run_config(hf, {}).value_or_throw();
  const auto model = config.make_model(0);
  const auto runtime = Runtime::create({}).value_or_throw();
  std::vector<DeviceArray> params =
      load_pretrained(runtime, *config.model, model->params(), {}, hf).value_or_throw();
  std::vector<DeviceArray*> pointers;
  for (DeviceArray& array : params) pointers.push_back(&array);
  HostArray ids(DType::kS32, {2, 24});
  for (size_t i = 0; i < 48; ++i) {
    ids.as<int32_t>()[i] = static_cast<int32_t>(i * 17 % static_cast<size_t>(model->vocab_size()));
  }
  const ModelOutputs got =
      model_outputs(runtime, {*model, {}, DType::kF32}, pointers, ids, ids).value_or_throw();
  write_tensors(folder_ / "ours.safetensors", {{"input_ids", ids}, {"logits", got.logits}});
  const char* python = std::getenv("ESPALIER_TORCH_PYTHON");
  if (python == nullptr) {
    GTEST_SKIP() << "transformers are not compared: ESPALIER_TORCH_PYTHON names no Python that "
                    "has them";
  }
  const fs::path peer = fs::path(ESPALIER_SOURCE_DIR) / "tests/python/transformers_peer.py";
  const std::string said =
      output_of("'" + std::string(python) + "' '" + peer.string() + "' '" + hf.string() + "' '" +
                (folder_ / "ours.safetensors").string() + "' 2>/dev/null");
  EXPECT_NE(said.find("missing 0\n"), std::string::npos) << said;
  EXPECT_NE(said.find("unexpected 0\n"), std::string::npos) << said;
  const size_t at = said.find("logits ");
  ASSERT_NE(at, std::string::npos) << said;
  EXPECT_LE(std::stod(said.substr(at + 7)), 2e-5) << said;
}

}  // namespace
}  // namespace espalier::test
