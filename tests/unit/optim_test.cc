// Schedules on the host, and what optimizers refuse and keep, without a plugin.
#include "espalier/optim/optimizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <set>

#include "espalier/config/recipe.h"
#include "espalier/ir/parameter.h"
#include "espalier/models/gpt2.h"
#include "espalier/ops/source.h"
#include "espalier/train/state.h"
#include "tests/support/oracle.h"

namespace espalier {
namespace {

Schedule schedule_of(const OptimizerConfig& config) {
  return Schedule::create(config).value_or_throw();
}

TEST(Schedule, ConstantWarmsUp) {
  OptimizerConfig c;
  c.learning_rate = 1;
  EXPECT_EQ(schedule_of(c).at(0), 1);
  c.warmup_steps = 4;
  c.init_learning_rate = 0.2;
  const Schedule s = schedule_of(c);
  EXPECT_DOUBLE_EQ(s.at(0), 0.2);
  EXPECT_DOUBLE_EQ(s.at(1), 0.4);
  EXPECT_DOUBLE_EQ(s.at(4), 1);
  EXPECT_DOUBLE_EQ(s.at(1000000), 1);
}

TEST(Schedule, LinearAndCosineEndAtTheMinimum) {
  OptimizerConfig c;
  c.learning_rate = 1;
  c.min_learning_rate = 0.1;
  c.warmup_steps = 10;
  c.decay_steps = 110;
  for (const char* name : {"linear", "cosine"}) {
    c.schedule = name;
    const Schedule s = schedule_of(c);
    EXPECT_DOUBLE_EQ(s.at(5), 0.5) << name;
    EXPECT_DOUBLE_EQ(s.at(10), 1) << name;
    EXPECT_NEAR(s.at(60), 0.55, 1e-12) << name;
    EXPECT_NEAR(s.at(110), 0.1, 1e-12) << name;
    EXPECT_NEAR(s.at(5000), 0.1, 1e-12) << name;
  }
  EXPECT_NEAR(schedule_of(c).at(35), 0.1 + 0.9 * (1 + std::sqrt(0.5)) / 2, 1e-12);
  c.schedule = "linear";
  EXPECT_NEAR(schedule_of(c).at(35), 0.775, 1e-12);
}

TEST(Schedule, WarmUpStableDecay) {
  OptimizerConfig c;
  c.learning_rate = 1;
  c.schedule = "wsd";
  c.warmup_steps = 10;
  c.decay_steps = 100;
  c.cooldown_steps = 20;
  const Schedule s = schedule_of(c);
  EXPECT_DOUBLE_EQ(s.at(1), 0.1);
  EXPECT_DOUBLE_EQ(s.at(10), 1);
  EXPECT_DOUBLE_EQ(s.at(80), 1);
  EXPECT_DOUBLE_EQ(s.at(90), 0.5);
  EXPECT_DOUBLE_EQ(s.at(100), 0);
}

TEST(OptimizerConfig, DefaultsAreValid) {
  for (const char* name : {"sgd", "adam", "adamw", "muon"}) {
    OptimizerConfig c;
    c.name = name;
    EXPECT_TRUE(make_optimizer(c).ok()) << name;
  }
}

TEST(OptimizerConfig, RefusalsNameTheKey) {
  struct Case {
    const char* key;
    std::function<void(OptimizerConfig&)> spoil;
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<Case> cases = {
      {"name", [](auto& c) { c.name = "adaw"; }},
      {"learning_rate", [](auto& c) { c.learning_rate = -1; }},
      {"learning_rate", [&](auto& c) { c.learning_rate = nan; }},
      {"beta1", [](auto& c) { c.beta1 = 1; }},
      {"beta2", [](auto& c) { c.beta2 = -0.1; }},
      {"epsilon", [](auto& c) { c.epsilon = 0; }},
      {"weight_decay", [](auto& c) { c.weight_decay = -1; }},
      {"weight_decay",
       [](auto& c) {
         c.name = "adam";
         c.weight_decay = 0.1;
       }},
      {"decay_parameters", [](auto& c) { c.decay_parameters = "some"; }},
      {"clip_norm", [](auto& c) { c.clip_norm = -1; }},
      {"momentum", [](auto& c) { c.momentum = 0.9; }},
      {"nesterov",
       [](auto& c) {
         c.name = "sgd";
         c.nesterov = true;
       }},
      {"schedule", [](auto& c) { c.schedule = "cosin"; }},
      {"warmup_steps", [](auto& c) { c.warmup_steps = -1; }},
      {"decay_steps", [](auto& c) { c.schedule = "cosine"; }},
      {"decay_steps",
       [](auto& c) {
         c.schedule = "linear";
         c.warmup_steps = 200;
         c.decay_steps = 100;
       }},
      {"min_learning_rate",
       [](auto& c) {
         c.schedule = "cosine";
         c.decay_steps = 10;
         c.min_learning_rate = 1;
       }},
      {"cooldown_steps",
       [](auto& c) {
         c.schedule = "wsd";
         c.decay_steps = 10;
       }},
      {"adam_learning_rate", [](auto& c) { c.adam_learning_rate = 1e-3; }},
      {"consistent_rms", [](auto& c) { c.consistent_rms = 0.2; }},
      {"newton_schulz_steps", [](auto& c) { c.newton_schulz_steps = 0; }},
  };
  for (const Case& entry : cases) {
    OptimizerConfig config;
    entry.spoil(config);
    const auto made = make_optimizer(config);
    ASSERT_FALSE(made.ok()) << entry.key;
    EXPECT_EQ(made.failure().code, Code::kInvalidArgument);
    EXPECT_EQ(made.failure().message.find(std::string("optimizer.") + entry.key + " = "), 0u)
        << made.failure().message;
  }
}

TEST(OptimizerConfig, NamesTheNearestChoiceAndTheStepsInTheWay) {
  OptimizerConfig c;
  c.name = "adaw";
  EXPECT_NE(make_optimizer(c).failure().message.find("did you mean adam"), std::string::npos);
  c.name = "adamw";
  c.schedule = "cosine";
  c.warmup_steps = 200;
  c.decay_steps = 100;
  const std::string message = make_optimizer(c).failure().message;
  EXPECT_NE(message.find("100"), std::string::npos) << message;
  EXPECT_NE(message.find("optimizer.warmup_steps = 200"), std::string::npos) << message;
}

TEST(OptimizerConfig, IsReadFromARecipe) {
  Recipe recipe =
      Recipe::parse("[optimizer]\nname = \"sgd\"\nmomentum = 0.9\nlearning_rate = 1\n", "a.toml")
          .value_or_throw();
  OptimizerConfig c;
  ASSERT_TRUE(read_table(recipe, "optimizer", c).ok());
  EXPECT_EQ(c.name, "sgd");
  EXPECT_EQ(c.momentum, 0.9);
  EXPECT_EQ(c.learning_rate, 1);
  Recipe wrong = Recipe::parse("[optimizer]\nwarmup = 5\n", "a.toml").value_or_throw();
  const Status status = read_table(wrong, "optimizer", c);
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.failure().message.find("warmup_steps"), std::string::npos);
}

// Parameters that an update without gradients moves: each loses its tenth.
std::set<std::string> decayed(const OptimizerConfig& config, const ParamSpecs& specs) {
  const Optimizer optimizer = make_optimizer(config).value_or_throw();
  const StateLayout layout(specs, optimizer, {}, Mesh());
  std::vector<TensorType> types;
  std::vector<HostArray> ones;
  for (const ParamInfo& info : layout.infos()) {
    types.push_back(info.type);
    ones.emplace_back(info.type.dtype, info.type.dims);
    std::ranges::fill(ones.back().as<float>(), 1.0f);
  }
  const Function update = trace(types, [&](const Tensors& params) {
    Tensors grads, state;
    for (const Tensor& p : params) grads.push_back(zeros_like(p));
    for (const StateInfo& s : optimizer.state(layout.infos())) state.push_back(zeros(s.type));
    const Tensor step = full_int({DType::kS32, {}}, 0);
    return optimizer.update(layout.infos(), params, grads, state, step).params;
  });
  const std::vector<HostArray> after = test::evaluate(update, ones);
  std::set<std::string> out;
  for (size_t i = 0; i < after.size(); ++i) {
    const float first = after[i].as<float>()[0];
    for (const float x : after[i].as<float>()) EXPECT_EQ(x, first) << specs[i].name;
    if (first == 1) continue;
    EXPECT_FLOAT_EQ(first, 0.9f) << specs[i].name;
    out.insert(specs[i].name);
  }
  return out;
}

// The bias of GPT-2's c_attn has the shape (3, H, K), and is no matrix.
TEST(WeightDecay, MatricesOrAllOfGpt2) {
  Gpt2Config sizes;
  sizes.vocab_size = 7;
  sizes.n_positions = 4;
  sizes.n_embd = 4;
  sizes.n_head = 2;
  sizes.n_layer = 2;
  const std::set<std::string> matrices = {"transformer.wte.weight",
                                          "transformer.wpe.weight",
                                          "transformer.h.*.attn.c_attn.weight",
                                          "transformer.h.*.attn.c_proj.weight",
                                          "transformer.h.*.mlp.c_fc.weight",
                                          "transformer.h.*.mlp.c_proj.weight"};
  for (const char* name : {"adamw", "muon"}) {
    for (const char* layers : {"scan", "unroll"}) {
      sizes.layers = layers;
      const auto model = make_model(sizes);
      std::set<std::string> all, wanted;
      for (const ParamSpec& spec : model->params()) {
        all.insert(spec.name);
        std::string stacked = spec.name;
        if (const size_t h = stacked.find(".h."); h != std::string::npos) stacked[h + 3] = '*';
        if (matrices.contains(stacked)) wanted.insert(spec.name);
      }
      EXPECT_GE(wanted.size(), matrices.size());
      OptimizerConfig c;
      c.name = name;
      c.learning_rate = 0.5;
      c.weight_decay = 0.2;
      if (c.name == "muon") c.adam_weight_decay = 0.2;
      EXPECT_EQ(decayed(c, model->params()), wanted) << name << " " << layers;
      c.decay_parameters = "all";
      EXPECT_EQ(decayed(c, model->params()), all) << name << " " << layers;
    }
  }
}

std::vector<ParamInfo> two_params() {
  std::vector<ParamInfo> infos(2);
  infos[0].name = "layers.w";
  infos[0].type = {DType::kBF16, {4, 2, 3}};
  infos[0].stacked = true;
  infos[0].matrix_in = {1};
  infos[0].matrix_out = {2};
  infos[1].name = "norm.scale";
  infos[1].type = {DType::kF32, {3}};
  return infos;
}

std::vector<std::string> state_names(const OptimizerConfig& config) {
  std::vector<std::string> out;
  const Optimizer optimizer = make_optimizer(config).value_or_throw();
  for (const StateInfo& s : optimizer.state(two_params())) {
    EXPECT_EQ(s.type.dtype, DType::kF32);
    EXPECT_EQ(s.type.dims, two_params()[s.param].type.dims);
    out.push_back(s.name);
  }
  return out;
}

TEST(Optimizer, StateIsNamedAfterParameters) {
  OptimizerConfig c;
  c.name = "sgd";
  EXPECT_TRUE(state_names(c).empty());
  c.momentum = 0.9;
  EXPECT_EQ(state_names(c),
            (std::vector<std::string>{"optimizer.m.layers.w", "optimizer.m.norm.scale"}));
  c = {};
  EXPECT_EQ(state_names(c),
            (std::vector<std::string>{"optimizer.m.layers.w", "optimizer.v.layers.w",
                                      "optimizer.m.norm.scale", "optimizer.v.norm.scale"}));
  c.name = "muon";
  EXPECT_EQ(state_names(c),
            (std::vector<std::string>{"optimizer.m.layers.w", "optimizer.m.norm.scale",
                                      "optimizer.v.norm.scale"}));
}

TEST(Optimizer, KeepsTypesAndChecksOperands) {
  OptimizerConfig c;
  c.name = "muon";
  c.clip_norm = 1;
  const Optimizer optimizer = make_optimizer(c).value_or_throw();
  const std::vector<ParamInfo> infos = two_params();
  std::vector<TensorType> types, state_types;
  for (const ParamInfo& info : infos) types.push_back(info.type);
  for (const StateInfo& s : optimizer.state(infos)) state_types.push_back(s.type);
  const Tensors params = parameters(types), state = parameters(state_types);
  const Tensors grads = parameters(types);
  const Tensor step = parameter({DType::kS32, {}});
  const OptimizerUpdate next = optimizer.update(infos, params, grads, state, step);
  EXPECT_EQ(types_of(next.params), types);
  EXPECT_EQ(types_of(next.state), state_types);
  EXPECT_EQ(next.grad_norm.type(), (TensorType{DType::kF32, {}}));
  EXPECT_EQ(next.learning_rate.type(), (TensorType{DType::kF32, {}}));

  const auto message = [&](const Tensors& g, const Tensors& s, const Tensor& t) -> std::string {
    try {
      optimizer.update(infos, params, g, s, t);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_NE(message({grads[0], grads[0]}, state, step).find("'norm.scale'"), std::string::npos);
  EXPECT_NE(message({grads[0], Tensor()}, state, step).find("'norm.scale'"), std::string::npos);
  EXPECT_NE(message({grads[0]}, state, step).find("2 gradients, got 1"), std::string::npos);
  EXPECT_NE(message(grads, {state[0]}, step).find("3 state arrays, got 1"), std::string::npos);
  EXPECT_NE(message(grads, {state[1], state[1], state[2]}, step).find("optimizer.m.layers.w"),
            std::string::npos);
  EXPECT_NE(message(grads, state, state[0]).find("s32[]"), std::string::npos);
}

}  // namespace
}  // namespace espalier
