// Llama 3 without a device: the published sizes, its config files, names in other files, and what
// the recipes' maps and rules split.
#include "espalier/models/llama.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "espalier/nn/layout.h"
#include "espalier/ops/op_list.h"
#include "espalier/train/config.h"
#include "espalier/transform/module.h"
#include "tests/support/error_of.h"
#include "tests/unit/data_testing.h"

namespace espalier::test {
namespace {

using nlohmann::json;

Llama3Config preset(const std::string& name) {
  Llama3Config out;
  out.apply_preset(name).value_or_throw();
  return out;
}

int64_t parameters(Llama3Config config, const std::string& layers) {
  config.layers = layers;
  return num_parameters(make_model(config)->params());
}

// The sums of the elements in the published files (model.safetensors.index.json: total_size / 2).
TEST(Llama3, PresetsHaveThePublishedSizes) {
  const std::pair<const char*, int64_t> wanted[] = {{"1B", 1'235'814'400},
                                                    {"3B", 3'212'749'824},
                                                    {"8B", 8'030'261'248},
                                                    {"70B", 70'553'706'496},
                                                    {"405B", 405'853'388'800}};
  for (const auto& [name, count] : wanted) {
    EXPECT_EQ(parameters(preset(name), "scan"), count) << name;
    EXPECT_EQ(parameters(preset(name), "unroll"), count) << name;
    EXPECT_EQ(preset(name).vocab_size, 128256);
    EXPECT_EQ(preset(name).rope_scaling.factor,
              name == std::string("1B") || name == std::string("3B") ? 32 : 8);
  }
  EXPECT_EQ(preset("1B").ffn_width(), 8192);
  EXPECT_EQ(preset("3B").ffn_width(), 8192);
  EXPECT_EQ(preset("8B").ffn_width(), 14336);
  EXPECT_EQ(preset("70B").ffn_width(), 28672);
  EXPECT_EQ(preset("405B").ffn_width(), 53248);
  EXPECT_EQ(preset("debug").ffn_width(), 768);
  EXPECT_NE(error_of([] { preset("7B"); }).find("405B"), std::string::npos);
}

TEST(Llama3, SizesMustFitTogether) {
  const auto refused = [](const std::function<void(Llama3Config&)>& change, const char* key) {
    Llama3Config config;
    config.vocab_size = 61;
    change(config);
    const std::string message = error_of([&] { make_model(config); });
    EXPECT_NE(message.find(key), std::string::npos) << message;
  };
  refused([](auto& c) { c.vocab_size = 0; }, "model.vocab_size");
  refused([](auto& c) { c.dim = 250; }, "model.n_heads");
  refused([](auto& c) { c.n_kv_heads = 3; }, "model.n_kv_heads = 3");
  refused([](auto& c) { c.head_dim = 7; }, "even width");
  refused([](auto& c) { c.ffn_dim_multiplier = 1e-9; }, "model.ffn_dim_multiplier");
  refused([](auto& c) { c.rope_scaling.low_freq_factor = 5; }, "low_freq_factor");
}

// What read_hf_config makes of what hf_config wrote.
TEST(Llama3, ConfigJsonKeepsEverySize) {
  Llama3Config config = preset("3B");
  config.head_dim = 64;
  config.n_layers = 5;
  config.norm_eps = 1e-6;
  for (const char* type : {"llama3", "default"}) {
    config.rope_scaling.rope_type = type;
    const json written = hf_config(config, 300).value_or_throw();
    Llama3Config read;
    read.attention = "flash";
    read_hf_config(written, read).value_or_throw();
    EXPECT_EQ(hf_config(read, read.vocab_size).value_or_throw(), written);
    EXPECT_EQ(read.attention, "flash");
  }
}

TEST(Llama3, BothFormsOfRopeParameters) {
  json config = hf_config(preset("8B"), 128256).value_or_throw();
  config["rope_parameters"] = config["rope_scaling"];
  config["rope_parameters"]["rope_theta"] = 250000.0;
  config["rope_parameters"]["factor"] = 16;
  config.erase("rope_scaling");
  config.erase("rope_theta");
  Llama3Config read;
  read_hf_config(config, read).value_or_throw();
  EXPECT_EQ(read.rope_theta, 250000);
  EXPECT_EQ(read.rope_scaling.rope_type, "llama3");
  EXPECT_EQ(read.rope_scaling.factor, 16);
  config["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 5000}};
  read_hf_config(config, read).value_or_throw();
  EXPECT_EQ(read.rope_scaling.rope_type, "default");
  EXPECT_EQ(read.rope_theta, 5000);
}

TEST(Llama3, ConfigsOfOtherModelsAreRefused) {
  const json good = hf_config(preset("8B"), 128256).value_or_throw();
  const auto refused = [&](const char* key, const json& value, Code code) {
    json config = good;
    config[key] = value;
    if (value == "missing") config.erase(key);
    Llama3Config read;
    expect_failure(read_hf_config(config, read), code, {key});
  };
  refused("hidden_size", "missing", Code::kInvalidArgument);
  refused("hidden_size", 0, Code::kInvalidArgument);
  refused("rms_norm_eps", "small", Code::kInvalidArgument);
  refused("tie_word_embeddings", 1, Code::kInvalidArgument);
  refused("rope_scaling", 8, Code::kInvalidArgument);
  refused("rope_scaling", {{"rope_type", "yarn"}, {"factor", 4}}, Code::kUnimplemented);
  refused("attention_bias", true, Code::kUnimplemented);
  refused("mlp_bias", true, Code::kUnimplemented);
  refused("hidden_act", "gelu", Code::kUnimplemented);
}

// Meta's file of Llama 3.1 8B.
TEST(Llama3, ParamsJson) {
  json params = {{"dim", 4096},
                 {"n_layers", 32},
                 {"n_heads", 32},
                 {"n_kv_heads", 8},
                 {"vocab_size", 128256},
                 {"ffn_dim_multiplier", 1.3},
                 {"multiple_of", 1024},
                 {"norm_eps", 1e-5},
                 {"rope_theta", 500000.0},
                 {"use_scaled_rope", true}};
  const auto read = [&] {
    const auto config = model_config_from_hf(params).value_or_throw();
    EXPECT_EQ(config->name(), "llama3");
    return config->to_hf(config->vocab_size()).value_or_throw();
  };
  EXPECT_EQ(read(), hf_config(preset("8B"), 128256).value_or_throw());
  params["use_scaled_rope"] = false;
  EXPECT_TRUE(read()["rope_scaling"].is_null());
  EXPECT_EQ(read()["max_position_embeddings"], 8192);
  params.erase("n_heads");
  expect_failure(model_config_from_hf(params), Code::kInvalidArgument, {"params.json", "n_heads"});
}

TEST(Llama3, NamesOfTorchtitan) {
  const auto titan = [](const char* name) { return llama3_hf_names(name).at(1); };
  EXPECT_EQ(llama3_hf_names("lm_head.weight").at(0), "lm_head.weight");
  EXPECT_EQ(titan("lm_head.weight"), "output.weight");
  EXPECT_EQ(titan("model.embed_tokens.weight"), "tok_embeddings.weight");
  EXPECT_EQ(titan("model.norm.weight"), "norm.weight");
  EXPECT_EQ(titan("model.layers.12.self_attn.q_proj.weight"), "layers.12.attention.wq.weight");
  EXPECT_EQ(titan("model.layers.1.self_attn.k_proj.weight"), "layers.1.attention.wk.weight");
  EXPECT_EQ(titan("model.layers.1.self_attn.v_proj.weight"), "layers.1.attention.wv.weight");
  EXPECT_EQ(titan("model.layers.1.self_attn.o_proj.weight"), "layers.1.attention.wo.weight");
  EXPECT_EQ(titan("model.layers.1.mlp.gate_proj.weight"), "layers.1.feed_forward.w1.weight");
  EXPECT_EQ(titan("model.layers.1.mlp.down_proj.weight"), "layers.1.feed_forward.w2.weight");
  EXPECT_EQ(titan("model.layers.1.mlp.up_proj.weight"), "layers.1.feed_forward.w3.weight");
  EXPECT_EQ(titan("model.layers.1.input_layernorm.weight"), "layers.1.attention_norm.weight");
  EXPECT_EQ(titan("model.layers.1.post_attention_layernorm.weight"), "layers.1.ffn_norm.weight");
}

class Llama3Recipe {
 public:
  explicit Llama3Recipe(const std::string& name, const std::vector<std::string>& set = {})
      : config_(load_run_config(
                    std::filesystem::path(ESPALIER_SOURCE_DIR) / "recipes" / (name + ".toml"), set)
                    .value_or_throw()),
        mesh_(config_.make_mesh()),
        rules_(config_.make_rules()),
        model_(config_.make_model(0)),
        layouts_(layout_params(model_->params(), rules_, mesh_)) {}

  PartitionSpec spec(const std::string& name) const {
    for (size_t i = 0; i < layouts_.size(); ++i) {
      if (model_->params()[i].name == name) return layouts_[i].spec;
    }
    ADD_FAILURE() << "no parameter " << name;
    return {};
  }
  std::vector<std::string> left_to_rules() const {
    std::vector<std::string> names;
    for (const ParamSpec& param : model_->params()) names.push_back(param.name);
    return rules_.left_to_rules(names);
  }
  // Elements of all parameters on one device.
  int64_t on_a_device() const {
    int64_t out = 0;
    for (const ParamLayout& layout : layouts_) {
      out += num_elements(shard_dims(mesh_, layout.spec, layout.type.dims, "parameter"));
    }
    return out;
  }
  // The forward pass as text.
  std::string text(int64_t length) const {
    ModuleOptions options{.name = "forward",
                          .mesh = mesh_,
                          .rules = rules_,
                          .in_specs = {},
                          .out_specs = {},
                          .donated = {}};
    std::vector<TensorType> types;
    for (const ParamLayout& layout : layouts_) {
      types.push_back(layout.type);
      options.in_specs.push_back(layout.spec);
    }
    types.push_back({DType::kS32, {8, length}});
    options.in_specs.push_back({{"fsdp"}, {}});
    options.out_specs = {std::nullopt};
    options.donated.resize(types.size());
    return to_stablehlo(trace(types,
                              [&](const Tensors& in) {
                                const Ctx cx(model_->params(), {in.begin(), in.end() - 1});
                                return Tensors{model_->hidden(in.back(), cx)};
                              }),
                        options);
  }

 private:
  RunConfig config_;
  Mesh mesh_;
  ShardingRules rules_;
  std::unique_ptr<LanguageModel> model_;
  std::vector<ParamLayout> layouts_;
};

const std::vector<std::string> kF = {"fsdp"}, kT = {"tp"}, kNo = {};

TEST(Llama3Recipes, TheMapOfEachLayer) {
  const Llama3Recipe recipe("llama3-8b-fsdp-tp");
  EXPECT_EQ(recipe.spec("model.embed_tokens.weight"), (PartitionSpec{kF, kT}));
  EXPECT_EQ(recipe.spec("lm_head.weight"), (PartitionSpec{kT, kF}));
  EXPECT_EQ(recipe.spec("model.norm.weight"), (PartitionSpec{kF}));
  for (const std::string layer : {"model.layers.0.", "model.layers.31."}) {
    EXPECT_EQ(recipe.spec(layer + "self_attn.q_proj.weight"), (PartitionSpec{kT, kNo, kF}));
    EXPECT_EQ(recipe.spec(layer + "self_attn.k_proj.weight"), (PartitionSpec{kT, kNo, kF}));
    EXPECT_EQ(recipe.spec(layer + "self_attn.v_proj.weight"), (PartitionSpec{kT, kNo, kF}));
    EXPECT_EQ(recipe.spec(layer + "self_attn.o_proj.weight"), (PartitionSpec{kF, kT, kNo}));
    EXPECT_EQ(recipe.spec(layer + "mlp.gate_proj.weight"), (PartitionSpec{kT, kF}));
    EXPECT_EQ(recipe.spec(layer + "mlp.up_proj.weight"), (PartitionSpec{kT, kF}));
    EXPECT_EQ(recipe.spec(layer + "mlp.down_proj.weight"), (PartitionSpec{kF, kT}));
    EXPECT_EQ(recipe.spec(layer + "input_layernorm.weight"), (PartitionSpec{kF}));
    EXPECT_EQ(recipe.spec(layer + "post_attention_layernorm.weight"), (PartitionSpec{kF}));
  }
  EXPECT_TRUE(recipe.left_to_rules().empty());
}

TEST(Llama3Recipes, TheMapsOfScannedLayers) {
  const Llama3Recipe both("llama3-8b-scan-fsdp-tp");
  EXPECT_EQ(both.spec("model.embed_tokens.weight"), (PartitionSpec{kT, kF}));
  EXPECT_EQ(both.spec("model.layers.*.self_attn.q_proj.weight"), (PartitionSpec{kNo, kT, kNo, kF}));
  EXPECT_EQ(both.spec("model.layers.*.self_attn.o_proj.weight"), (PartitionSpec{kNo, kF, kT, kNo}));
  EXPECT_EQ(both.spec("model.layers.*.mlp.down_proj.weight"), (PartitionSpec{kNo, kF, kT}));
  EXPECT_EQ(both.spec("model.layers.*.input_layernorm.weight"), (PartitionSpec{kNo, kF}));
  EXPECT_TRUE(both.left_to_rules().empty());

  const Llama3Recipe one("llama3-8b-scan-fsdp");
  EXPECT_EQ(one.spec("model.embed_tokens.weight"), (PartitionSpec{kF, kNo}));
  EXPECT_EQ(one.spec("lm_head.weight"), (PartitionSpec{kF, kNo}));
  EXPECT_EQ(one.spec("model.layers.*.self_attn.k_proj.weight"), (PartitionSpec{kNo, kF, kNo, kNo}));
  EXPECT_EQ(one.spec("model.layers.*.self_attn.o_proj.weight"), (PartitionSpec{kNo, kF, kNo, kNo}));
  EXPECT_EQ(one.spec("model.layers.*.mlp.gate_proj.weight"), (PartitionSpec{kNo, kF, kNo}));
  EXPECT_TRUE(one.left_to_rules().empty());
  // More devices than heads of keys: their width is split, as the published shape would be.
  const Llama3Recipe wide("llama3-8b-scan-fsdp", {"mesh.axes={fsdp=64}"});
  EXPECT_EQ(wide.spec("model.layers.*.self_attn.k_proj.weight"),
            (PartitionSpec{kNo, kNo, kF, kNo}));
}

// Every recipe of 8 devices gives each an eighth of the parameters, but for norms.
TEST(Llama3Recipes, EachDeviceHasItsShare) {
  for (const char* name :
       {"llama3-8b-fsdp-tp", "llama3-8b-scan-fsdp-tp", "llama3-8b-scan-fsdp",
        "llama3-8b-fully-sharded", "llama3-8b-sequence-parallel", "llama3-8b-context-parallel"}) {
    const int64_t share = 8'030'261'248 / 8;
    EXPECT_GE(Llama3Recipe(name).on_a_device(), share) << name;
    EXPECT_LE(Llama3Recipe(name).on_a_device(), share + 65 * 4096) << name;
  }
  const Llama3Recipe large("llama3-70b-v5p");
  const int64_t share = 70'553'706'496 / 256;
  EXPECT_GE(large.on_a_device(), share);
  EXPECT_LE(large.on_a_device(), share + 161 * 8192);
  EXPECT_TRUE(large.left_to_rules().empty());
}

TEST(Llama3Recipes, SequenceParallelismSplitsTheStreamByPositions) {
  const std::vector<std::string> small = {"model.n_layers=1", "model.attention=dense"};
  const Llama3Recipe split("llama3-8b-sequence-parallel", small);
  const std::string stream = "[{\"fsdp\"}, {\"tp\"}, {}]>", whole = "[{\"fsdp\"}, {}, {}]>",
                    heads = "[{\"fsdp\"}, {}, {\"tp\"}, {}]>";
  const std::string text = split.text(16);
  EXPECT_NE(text.find(stream + " : tensor<8x16x4096xf32>"), std::string::npos) << "residual stream";
  EXPECT_NE(text.find(whole + " : tensor<8x16x4096xf32>"), std::string::npos) << "layers' inputs";
  EXPECT_NE(text.find(heads + " : tensor<8x16x8x128xf32>"), std::string::npos) << "keys";
  const std::string plain = Llama3Recipe("llama3-8b-scan-fsdp-tp", small).text(16);
  EXPECT_EQ(plain.find(stream + " : tensor<8x16x4096xf32>"), std::string::npos);
  EXPECT_NE(plain.find(heads + " : tensor<8x16x8x128xf32>"), std::string::npos);
}

TEST(Llama3Recipes, KeyHeadsThatTheAxisDoesNotDivide) {
  const std::vector<std::string> set = {"mesh.axes={fsdp=1, tp=16}"};
  const std::string message = error_of([&] { Llama3Recipe("llama3-8b-sequence-parallel", set); });
  for (const char* part : {"k_proj", "'tp' of size 16", "is 8"}) {
    EXPECT_NE(message.find(part), std::string::npos) << part << " is not in: " << message;
  }
  // With a rule of their own every device has all of them.
  const Llama3Recipe whole("llama3-8b-sequence-parallel", {set[0], "sharding.rules.kv_heads=[]"});
  EXPECT_EQ(whole.spec("model.layers.*.self_attn.k_proj.weight"),
            (PartitionSpec{kNo, kNo, kNo, kF}));
  EXPECT_EQ(whole.spec("model.layers.*.self_attn.q_proj.weight"),
            (PartitionSpec{kNo, kT, kNo, kF}));
}

}  // namespace
}  // namespace espalier::test
