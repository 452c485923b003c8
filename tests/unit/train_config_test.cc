// RunConfig: a recipe written and read again is the same, defaults, and rules for a mesh.
#include "espalier/train/config.h"

#include <gtest/gtest.h>

#include "tests/unit/data_testing.h"

namespace espalier {
namespace {

class TrainConfigTest : public testing::Test {
 protected:
  Result<RunConfig> load(const std::string& toml, const std::vector<std::string>& set = {}) {
    return load_run_config(folder_.write("recipe.toml", toml), set);
  }
  TemporaryFolder folder_;
};

TEST_F(TrainConfigTest, AnEmptyRecipeIsTheDefaults) {
  const RunConfig config = load("").value_or_throw();
  EXPECT_EQ(to_toml(config), to_toml(RunConfig()));
  EXPECT_EQ(config.train.steps, 0);
  EXPECT_EQ(config.model->name(), "minigpt");
  EXPECT_EQ(config.make_mesh().size(), 1);
}

TEST_F(TrainConfigTest, WhatIsWrittenReadsTheSame) {
  const std::string defaults = to_toml(RunConfig());
  EXPECT_EQ(to_toml(load(defaults).value_or_throw()), defaults);

  RunConfig config = load(R"(
[model]
name = "minigpt"
vocab_size = 211
dropout = 0.25
layers = "unroll"
[data]
source = "text"
path = "a \"quoted\" path\n"
seed = 9
[mesh]
axes = {dp = 2, tp = 4}
[sharding.rules]
batch = "dp"
mlp = ["tp", "dp"]
embed = []
[sharding.params]
"*.l1.kernel" = ["", "tp"]
"out.*" = [["dp", "tp"], ""]
[optimizer]
name = "muon"
learning_rate = 0.1
momentum = 0.9
[train]
steps = 3
accumulate = 4
[sample]
every = 0
temperature = 0.7
)")
                         .value_or_throw();
  const std::string text = to_toml(config);
  const RunConfig again = load(text).value_or_throw();
  EXPECT_EQ(to_toml(again), text);
  EXPECT_NE(text, defaults);
  EXPECT_EQ(again.model->vocab_size(), 211);
  EXPECT_EQ(again.data.path, "a \"quoted\" path\n");
  EXPECT_EQ(again.mesh.axes, (NamedInts{{"dp", 2}, {"tp", 4}}));
  EXPECT_EQ(again.sharding.params, config.sharding.params);
  EXPECT_EQ(again.optimizer.learning_rate, 0.1);
  EXPECT_EQ(again.optimizer.momentum, 0.9);
  EXPECT_EQ(again.optimizer.nesterov, std::nullopt);
  EXPECT_EQ(again.sample.every, 0);
}

TEST_F(TrainConfigTest, TheRecipesOfTheRepositoryRead) {
  for (const char* name :
       {"default.toml", "minigpt-tinystories.toml", "shakespeare-char.toml", "gpt2-124m.toml"}) {
    const auto config =
        load_run_config(std::filesystem::path(ESPALIER_SOURCE_DIR) / "recipes" / name, {});
    EXPECT_TRUE(config.ok()) << config.failure().message;
  }
}

TEST_F(TrainConfigTest, DefaultRulesForAxesThatAMeshLacksAreDropped) {
  const auto rules = [&](const std::string& toml) {
    return load(toml).value_or_throw().make_rules().axes;
  };
  using Axes = std::map<std::string, std::vector<std::string>>;
  EXPECT_EQ(rules(""), Axes{});
  EXPECT_EQ(rules("[mesh]\naxes = {batch = 8}\n"), (Axes{{"batch", {"batch"}}}));
  EXPECT_EQ(
      rules("[mesh]\naxes = {batch = 4, model = 2}\n"),
      (Axes{{"batch", {"batch"}}, {"heads", {"model"}}, {"mlp", {"model"}}, {"vocab", {"model"}}}));
  EXPECT_EQ(rules("[mesh]\naxes = {fsdp = 4, tp = 2}\n"), (Axes{{"batch", {"fsdp"}},
                                                                {"embed", {"fsdp"}},
                                                                {"heads", {"tp"}},
                                                                {"mlp", {"tp"}},
                                                                {"vocab", {"tp"}}}));
  // A rule of the recipe's own stays, so that a misspelt axis is found.
  EXPECT_EQ(rules("[mesh]\naxes = {batch = 8}\n[sharding.rules]\nmlp = \"modle\"\n"),
            (Axes{{"mlp", {"modle"}}}));
}

// A preset's sizes stand where the recipe gives none, and what is written reads the same.
TEST_F(TrainConfigTest, PresetsOfGpt2) {
  const RunConfig config =
      load("[model]\nname = \"gpt2\"\npreset = \"gpt2-medium\"\nn_layer = 3\n").value_or_throw();
  const std::string text = to_toml(config);
  for (const char* line : {"n_embd = 1024", "n_head = 16", "n_layer = 3", "n_positions = 1024"}) {
    EXPECT_NE(text.find(line), std::string::npos) << line;
  }
  EXPECT_EQ(to_toml(load(text).value_or_throw()), text);
  expect_failure(load("[model]\nname = \"gpt2\"\npreset = \"gpt3\"\n"), Code::kInvalidArgument,
                 {"gpt3", "gpt2-xl"});
  expect_failure(load("[model]\npreset = \"gpt2\"\n"), Code::kInvalidArgument, {"no presets"});
}

// Published sizes: 124M, 350M, 774M and 1.6B parameters.
TEST_F(TrainConfigTest, PresetsHaveThePublishedSizes) {
  const std::pair<const char*, int64_t> wanted[] = {{"gpt2", 124439808},
                                                    {"gpt2-medium", 354823168},
                                                    {"gpt2-large", 774030080},
                                                    {"gpt2-xl", 1557611200}};
  for (const auto& [name, count] : wanted) {
    const RunConfig config =
        load(std::string("[model]\nname = \"gpt2\"\npreset = \"") + name + "\"\n").value_or_throw();
    EXPECT_EQ(num_parameters(config.make_model(50257)->params()), count) << name;
  }
}

TEST_F(TrainConfigTest, Overrides) {
  const RunConfig config =
      load("[train]\nsteps = 3\n", {"train.steps=5", "mesh.axes={batch = 2}", "sample.prompt=Hi"})
          .value_or_throw();
  EXPECT_EQ(config.train.steps, 5);
  EXPECT_EQ(config.make_mesh().size(), 2);
  EXPECT_EQ(config.sample.prompt, "Hi");
}

TEST_F(TrainConfigTest, Failures) {
  expect_failure(load("[data]\nseq_len = 512\n"), Code::kInvalidArgument,
                 {"data.seq_len = 512", "model.maxlen = 256"});
  expect_failure(load("[model]\nname = \"gpt5\"\n"), Code::kInvalidArgument,
                 {"recipe.toml:2", "model.name", "minigpt"});
  expect_failure(load("[train]\ndtype = \"float16\"\n"), Code::kInvalidArgument,
                 {"train.dtype", "float32"});
  expect_failure(load("[mesh]\naxes = {batch = 0}\n"), Code::kInvalidArgument,
                 {"mesh.axes", "at least 1"});
  expect_failure(load("[train]\nstpes = 5\n"), Code::kInvalidArgument,
                 {"recipe.toml:2", "stpes", "steps"});
  expect_failure(load_run_config(folder_ / "none.toml", {}), Code::kNotFound, {"none.toml"});
}

TEST_F(TrainConfigTest, RematKeys) {
  using Saves = RematPolicy::Saves;
  EXPECT_FALSE(RunConfig().remat_policy());
  const struct {
    const char* text;
    RematPolicy policy;
  } cases[] = {
      {"remat = \"everything\"\n", {Saves::kNothing}},
      {"remat = \"dots\"\n", {Saves::kDots}},
      {"remat = \"dots_with_no_batch_dims\"\noffload = true\n",
       {Saves::kDotsWithNoBatchDims, {}, true}},
      {"remat = \"names\"\nremat_names = [\"qkv\", \"attn_out\"]\n",
       {Saves::kNames, {"qkv", "attn_out"}}},
  };
  for (const auto& c : cases) {
    const RunConfig config = load(std::string("[train]\n") + c.text).value_or_throw();
    EXPECT_EQ(config.remat_policy(), c.policy) << c.text;
    EXPECT_EQ(to_toml(load(to_toml(config)).value_or_throw()), to_toml(config));
  }
  const auto fails = [&](const std::string& text, const std::vector<std::string>& parts) {
    expect_failure(load("[train]\n" + text), Code::kInvalidArgument, parts);
  };
  fails("remat = \"some\"\n", {"train.remat", "everything"});
  fails("remat = \"names\"\n", {"train.remat_names"});
  fails("remat_names = [\"qkv\"]\n", {"train.remat_names", "\"none\""});
  fails("remat = \"everything\"\noffload = true\n", {"train.offload", "\"dots\""});
  fails("offload = true\n", {"train.offload"});
}

TEST_F(TrainConfigTest, ParameterTypes) {
  EXPECT_EQ(RunConfig().param_dtype(), DType::kF32);
  const RunConfig config = load("[train]\nparam_dtype = \"bfloat16\"\n").value_or_throw();
  const auto model = config.make_model(50);
  for (const ParamSpec& spec : model->params()) {
    EXPECT_EQ(spec.dtype, DType::kBF16) << spec.name;
  }
  expect_failure(load("[train]\nparam_dtype = \"float16\"\n"), Code::kInvalidArgument,
                 {"train.param_dtype", "bfloat16"});
}

TEST_F(TrainConfigTest, SyntheticTokensMakeNoSamples) {
  const std::string data = "[data]\nsource = \"synthetic\"\n";
  EXPECT_EQ(load(data + "[train]\nsteps = 5\n").value_or_throw().sample.every, 0);
  expect_failure(load(data), Code::kInvalidArgument, {"train.steps"});
  expect_failure(load(data + "[train]\nsteps = 5\n[sample]\nevery = 2\n"), Code::kInvalidArgument,
                 {"sample.every"});
}

TEST_F(TrainConfigTest, SampleKeys) {
  const RunConfig defaults;
  EXPECT_EQ(defaults.sample.top_p, 1);
  EXPECT_FALSE(defaults.sample.slide);
  const RunConfig config =
      load("[sample]\ntop_k = 0\ntop_p = 0.9\nslide = true\n").value_or_throw();
  EXPECT_EQ(config.sample.top_k, 0);
  EXPECT_EQ(config.sample.top_p, 0.9);
  EXPECT_TRUE(config.sample.slide);
  EXPECT_EQ(to_toml(load(to_toml(config)).value_or_throw()), to_toml(config));
  expect_failure(load("[sample]\ntop_k = -1\n"), Code::kInvalidArgument,
                 {"recipe.toml:2", "sample.top_k", "at least 0"});
  for (const char* top_p : {"0", "1.5", "nan"}) {
    expect_failure(load(std::string("[sample]\ntop_p = ") + top_p + "\n"), Code::kInvalidArgument,
                   {"recipe.toml:2", "sample.top_p"});
  }
}

// Token ids are int32.
TEST_F(TrainConfigTest, RangeOfTheIgnoredId) {
  for (const int64_t id : {int64_t{-2147483648}, int64_t{-100}, int64_t{2147483647}}) {
    const RunConfig config = load("", {"train.ignore_id=" + std::to_string(id)}).value_or_throw();
    EXPECT_EQ(config.train.ignore_id, id);
  }
  for (const char* id : {"-2147483649", "2147483648", "4294967295"}) {
    expect_failure(load(std::string("[train]\nignore_id = ") + id + "\n"), Code::kInvalidArgument,
                   {"recipe.toml:2", "train.ignore_id", "-2147483648", "2147483647", id});
  }
}

TEST_F(TrainConfigTest, TheTokenizersVocabularyWhereTheRecipeGivesNone) {
  EXPECT_EQ(RunConfig().make_model(77)->vocab_size(), 77);
  const RunConfig own = load("[model]\nvocab_size = 80\n").value_or_throw();
  EXPECT_EQ(own.make_model(77)->vocab_size(), 80);
}

}  // namespace
}  // namespace espalier
