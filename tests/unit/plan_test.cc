// What a plan looks at, and what it foretells: from sizes alone.
#include "espalier/train/plan.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "espalier/ops/control.h"
#include "espalier/ops/dot.h"
#include "espalier/ops/elementwise.h"
#include "espalier/ops/reduce.h"
#include "espalier/ops/source.h"
#include "espalier/train/machines.h"
#include "espalier/train/plan_candidates.h"
#include "espalier/train/plan_cost.h"
#include "espalier/transform/simplify.h"
#include "tests/unit/data_testing.h"

namespace espalier::test {
namespace {

constexpr const char* kRecipe = R"(
[model]
name = "llama3"
preset = "8B"
max_seq_len = 8192
n_layers = 4
attention = "flash"
[data]
source = "synthetic"
seq_len = 8192
batch_size = 8
[mesh]
axes = {fsdp = 4, tp = 2}
[sharding.rules]
batch = "fsdp"
heads = "tp"
mlp = "tp"
vocab = "tp"
embed = "fsdp"
[optimizer]
name = "sgd"
learning_rate = 0.01
[train]
steps = 1
dtype = "bfloat16"
param_dtype = "bfloat16"
remat = "everything"
checkpoint_every = 0
)";

RunConfig recipe(const std::vector<std::string>& overrides = {}) {
  const TemporaryFolder folder;
  const auto path = folder.write("recipe.toml", kRecipe);
  return load_run_config(path, overrides).value_or_throw();
}

PlanTarget target(const std::string& topology) {
  return plan_target(parse_topology(topology).value_or_throw()).value_or_throw();
}

PlannedStep as_it_stands(const std::vector<std::string>& overrides,
                         const std::string& topology = "v6e:2x4") {
  Plan plan = make_plan(recipe(overrides), target(topology), true).value_or_throw();
  return plan.steps.empty() ? *plan.least : plan.steps.front();
}

double bytes_of(const PlannedStep& step, const std::string& kind) {
  double sum = 0;
  for (const CollectiveCost& c : step.collectives) sum += c.kind == kind ? c.bytes : 0;
  return sum;
}

TEST(PlanCandidates, MeshesShareTheDevicesAmongTheAxesThatRulesName) {
  const auto meshes = candidate_meshes(recipe(), 8);
  const std::set<NamedInts> unique(meshes.begin(), meshes.end());
  const std::set<NamedInts> expected = {{{"fsdp", 1}, {"tp", 8}},
                                        {{"fsdp", 2}, {"tp", 4}},
                                        {{"fsdp", 4}, {"tp", 2}},
                                        {{"fsdp", 8}, {"tp", 1}}};
  EXPECT_EQ(unique, expected);
  EXPECT_EQ(meshes.size(), unique.size());
}

TEST(PlanCandidates, OfDefaultRulesAxesThatMeanTheSameAreTakenOnce) {
  RunConfig config = recipe();
  config.mesh.axes = {{"data", 8}};
  config.sharding = {};
  std::set<std::string> axes;
  for (const NamedInts& mesh : candidate_meshes(config, 12)) {
    int64_t devices = 1;
    for (const auto& [name, size] : mesh) {
      EXPECT_GT(size, 1);
      axes.insert(name);
      devices *= size;
    }
    EXPECT_EQ(devices, 12);
  }
  // The recipe's own name stands for its like, "fsdp" and one of "model", "tensor" and "tp" beside.
  EXPECT_TRUE(axes.contains("data"));
  EXPECT_FALSE(axes.contains("batch"));
  EXPECT_FALSE(axes.contains("dp"));
  EXPECT_TRUE(axes.contains("fsdp"));
  EXPECT_EQ(axes.count("model") + axes.count("tensor") + axes.count("tp"), 1U);
}

TEST(PlanCandidates, OffloadOnlyWhereThereIsAnotherMemory) {
  const auto offloads = [](const std::string& platform) {
    const auto all = candidate_remats(recipe(), platform);
    return std::any_of(all.begin(), all.end(), [](const auto& r) { return r.offload; });
  };
  EXPECT_FALSE(offloads("cpu"));
  EXPECT_TRUE(offloads("tpu"));
  EXPECT_TRUE(offloads("cuda"));
}

TEST(Plan, ListsWhatFitsByTimeWithTheTokensOfTheRecipe) {
  const RunConfig config = recipe();
  const Plan plan = make_plan(config, target("v6e:2x4")).value_or_throw();
  ASSERT_GT(plan.steps.size(), 4U);
  EXPECT_EQ(plan.tokens, 8 * 8192);
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    const PlannedStep& step = plan.steps[i];
    EXPECT_EQ(step.accumulate * step.batch_size, 8);
    EXPECT_LE(step.peak_bytes(), kPlannedShare * plan.memory_bytes);
    EXPECT_GT(step.mfu, 0);
    EXPECT_LE(plan.steps[i > 0 ? i - 1 : 0].bound().seconds, step.bound().seconds);
  }
  // Said on the command line, the first is the recipe that was planned.
  const PlannedStep& best = plan.steps.front();
  const RunConfig said = recipe(planned_overrides(config, best));
  EXPECT_EQ(to_toml(said), to_toml(planned_config(config, best)));
  EXPECT_EQ(said.mesh.axes, best.mesh);
}

TEST(Plan, WhatAMeshDoesNotDivideIsNoCandidate) {
  const Plan plan = make_plan(recipe(), target("v6e:4x4")).value_or_throw();
  EXPECT_EQ(plan.not_split, 2);  // 16 over 8 heads of keys, and over 8 rows
  EXPECT_NE(plan.why_not_split, "");
  for (const PlannedStep& step : plan.steps) {
    EXPECT_NE(step.mesh, (NamedInts{{"fsdp", 1}, {"tp", 16}}));
    EXPECT_NE(step.mesh, (NamedInts{{"fsdp", 16}, {"tp", 1}}));
  }
}

TEST(Plan, ArgumentsAreThoseOfTheLayout) {
  for (const char* optimizer : {"sgd", "adamw"}) {
    const RunConfig config = recipe({"optimizer.name=" + std::string(optimizer)});
    const Plan plan = make_plan(config, target("v6e:2x4"), true).value_or_throw();
    ASSERT_EQ(plan.steps.size(), 1U);
    const RunSetup setup = set_up_step(config).value_or_throw();
    int64_t bytes = 2 * (8 / 4) * 8192 * 4 + 2 * 4;  // tokens, targets and the key
    for (const Argument& array : setup.layout->arrays()) {
      const TensorType& type = array.layout->type;
      bytes += num_elements(shard_dims(setup.mesh, array.layout->spec, type.dims, "")) *
               static_cast<int64_t>(byte_size(type.dtype));
    }
    EXPECT_EQ(plan.steps[0].argument_bytes, bytes);
  }
}

TEST(Plan, MoreComputedAgainIsLessMemoryAndMoreWork) {
  const PlannedStep none = as_it_stands({"train.remat=none"}),
                    dots = as_it_stands({"train.remat=dots_with_no_batch_dims"}),
                    all = as_it_stands({});
  EXPECT_GT(none.peak_bytes(), dots.peak_bytes());
  EXPECT_GT(dots.peak_bytes(), all.peak_bytes());
  EXPECT_LT(none.step_flops, dots.step_flops);
  EXPECT_LT(dots.step_flops, all.step_flops);
  EXPECT_EQ(none.argument_bytes, all.argument_bytes);
  EXPECT_GT(none.mfu, 0);
}

TEST(Plan, OffloadMovesWhatIsKeptToTheHost) {
  const std::string remat = "train.remat=dots_with_no_batch_dims";
  const std::string layers = "model.n_layers=16";
  const PlannedStep here = as_it_stands({remat, layers}),
                    there = as_it_stands({remat, layers, "train.offload=true"});
  EXPECT_EQ(here.host_bytes, 0);
  EXPECT_GT(there.host_bytes, 0);
  EXPECT_LT(there.peak_bytes(), here.peak_bytes() - 0.8 * there.host_bytes);
  const auto host = std::find_if(there.bounds.begin(), there.bounds.end(),
                                 [](const StepBound& b) { return b.of == "host"; });
  ASSERT_NE(host, there.bounds.end());
  EXPECT_GT(host->seconds, 0);
}

TEST(Plan, SmallerBatchesTakeLessMemory) {
  const PlannedStep one = as_it_stands({"train.remat=none"}),
                    two = as_it_stands(
                        {"train.remat=none", "data.batch_size=4", "train.accumulate=2"});
  EXPECT_LT(two.peak_bytes(), one.peak_bytes());
  EXPECT_NEAR(two.step_flops / one.step_flops, 1, 1e-9);
  // Weights are gathered for each batch.
  EXPECT_GT(bytes_of(two, "all-gather"), 1.5 * bytes_of(one, "all-gather"));
}

TEST(Plan, CollectivesAreThoseOfTheMesh) {
  const PlannedStep fsdp = as_it_stands({"mesh.axes={fsdp=8, tp=1}"}),
                    tensor = as_it_stands({"mesh.axes={fsdp=1, tp=8}"});
  // Every weight of 4 layers is gathered forward and backward.
  const double layers = 2 * 4 * 218.1e6 * 2;  // bytes
  EXPECT_GT(bytes_of(fsdp, "all-gather"), layers);
  EXPECT_LT(bytes_of(fsdp, "all-gather"), 1.6 * layers);
  EXPECT_GT(bytes_of(fsdp, "reduce-scatter"), layers / 2);
  EXPECT_EQ(bytes_of(tensor, "reduce-scatter"), 0);
  // Two sums of the residual stream forward, of which the backward pass makes again the one that
  // it reads, and two of its gradient; and one of the loss's.
  const double stream = 8.0 * 8192 * 4096 * 2;
  EXPECT_NEAR(bytes_of(tensor, "all-reduce") / stream, 4 * 5 + 1, 1.5);
  EXPECT_NEAR(fsdp.step_flops / tensor.step_flops, 1, 1e-3);
}

TEST(Plan, WhereNothingFitsItSaysWhatComesNearest) {
  const Plan plan = make_plan(recipe(), target("v5e:1x1")).value_or_throw();
  EXPECT_TRUE(plan.steps.empty());
  ASSERT_TRUE(plan.least.has_value());
  EXPECT_GT(plan.too_large, 0);
  const std::string message = nothing_fits(plan);
  EXPECT_NE(message.find("nothing fits the 16.00 GiB of a TPU v5e"), std::string::npos) << message;
  EXPECT_NE(message.find("fsdp=1 tp=1"), std::string::npos) << message;
}

TEST(Plan, NeedsAMachineWhoseNumbersAreKnown) {
  const auto unknown = plan_target(parse_topology("v2:2x2").value_or_throw());
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(unknown.failure().code, Code::kInvalidArgument);
  EXPECT_NE(unknown.failure().message.find("'v2:2x2'"), std::string::npos);
  for (const char* known : {"v4:2x2x2", "v5e:2x4", "v5p:2x2x2", "v6e:2x4", "a100:8", "a100-40gb:8",
                            "h100:8", "h200:8"}) {
    const PlanTarget found = target(known);
    EXPECT_EQ(found.devices, 8) << known;
    EXPECT_NE(found.machine, nullptr) << known;
  }
  EXPECT_EQ(target("a100-40gb:8").machine->memory_bytes, 40e9);

  const auto wrong = make_plan(recipe(), target("h100:16"), true);
  ASSERT_FALSE(wrong.ok());
  EXPECT_EQ(wrong.failure().code, Code::kInvalidArgument);
  EXPECT_NE(wrong.failure().message.find("has 8 devices, but h100:16 has 16"), std::string::npos);
}

TEST(Plan, TextAndJsonTellTheSame) {
  const Plan plan = make_plan(recipe(), target("v6e:2x4")).value_or_throw();
  const std::string text = to_text(plan, {}, 1);
  EXPECT_NE(text.find("for v6e:2x4 (8 x TPU v6e, 32.00 GiB each)"), std::string::npos) << text;
  EXPECT_NE(text.find("more: --limit"), std::string::npos) << text;
  EXPECT_NE(text.find("the first: --set"), std::string::npos) << text;
  CompiledStep compiled;
  compiled.peak_bytes = static_cast<int64_t>(plan.steps[0].peak_bytes() / 1.1);
  const nlohmann::json json = to_json(plan, {{compiled, ""}});
  EXPECT_EQ(json["steps"].size(), plan.steps.size());
  EXPECT_EQ(json["steps"][0]["peak_bytes"], plan.steps[0].peak_bytes());
  EXPECT_NEAR(json["steps"][0]["memory_error"].get<double>(), 0.1, 1e-6);
}

// A function small enough to count by hand.
planning::GraphCost cost_of(const Function& function, const Mesh& mesh,
                            const std::vector<PartitionSpec>& in) {
  const planning::Graph graph = planning::make_graph(simplify(function));
  const std::vector<std::optional<PartitionSpec>> out(function.results.size());
  const planning::Splits splits(graph, mesh, {}, in, out);
  return planning::graph_cost(graph, splits, planning::traits_of("tpu", mesh.size()));
}

TEST(PlanCost, ChainsOfProductsHoldTwoAtATime) {
  const TensorType square{DType::kF32, {1024, 1024}};
  const double bytes = 4.0 * 1024 * 1024;
  const Function chain = trace({square, square}, [](const Tensors& in) {
    Tensor x = in[0];
    for (int i = 0; i < 4; ++i) x = exp(matmul(x, in[1]) * 2.0);
    return Tensors{reduce_sum(x)};
  });
  const planning::GraphCost cost = cost_of(chain, Mesh(), {{{}, {}}, {{}, {}}});
  // A product is read while the next is made; what is elementwise takes over its place.
  EXPECT_NEAR(cost.temporary_bytes, 2 * bytes, 64);
  EXPECT_EQ(cost.flops, 4 * 2.0 * 1024 * 1024 * 1024);
  EXPECT_TRUE(cost.collectives.empty());
}

TEST(PlanCost, ASplitSumIsAddedUpAndASplitWeightIsGathered) {
  const TensorType x{DType::kF32, {64, 1024}}, w{DType::kF32, {1024, 1024}};
  const Function product = trace(
      {x, w}, [](const Tensors& in) { return Tensors{reduce_sum(exp(matmul(in[0], in[1])))}; });
  const Mesh mesh({{"a", 4}});
  const auto summed = cost_of(product, mesh, {{{}, {"a"}}, {{"a"}, {}}});
  ASSERT_EQ(summed.collectives.size(), 1U);
  EXPECT_EQ(summed.collectives[0].kind, "all-reduce");
  EXPECT_EQ(summed.collectives[0].bytes, 4.0 * 64 * 1024);
  EXPECT_EQ(summed.collectives[0].received_bytes, 2 * 0.75 * 4 * 64 * 1024);
  EXPECT_EQ(summed.flops, 2.0 * 64 * 1024 * 1024 / 4);

  const auto gathered = cost_of(product, mesh, {{{"a"}, {}}, {{"a"}, {}}});
  ASSERT_FALSE(gathered.collectives.empty());
  EXPECT_EQ(gathered.collectives[0].kind, "all-gather");
  EXPECT_EQ(gathered.collectives[0].bytes, 4.0 * 1024 * 1024);
  EXPECT_EQ(gathered.flops, 2.0 * 64 * 1024 * 1024 / 4);
  EXPECT_GE(gathered.temporary_bytes, 4.0 * 1024 * 1024);
}

TEST(PlanCost, LoopsCountAsOftenAsTheyRunAndAddUpTheirSumsOnce) {
  const TensorType x{DType::kF32, {8, 64, 128}}, w{DType::kF32, {128, 128}};
  // Sums of products that are split along what they sum over; of each the square too where
  // `squared`, so that it is needed in every turn.
  const auto loop = [&](bool squared) {
    return trace({x}, [&](const Tensors& in) {
      const auto body = [&](const Tensors& carry, const Tensors& now) -> ScanResult {
        const Tensor part = dot_general(now[0], now[0], {}, {}, {0}, {0});
        return {{carry[0] + (squared ? part * part : part)}, {}};
      };
      return scan(body, {zeros(w)}, {in[0]}).carry;
    });
  };
  const Mesh mesh({{"a", 4}});
  const double bytes = 4.0 * 128 * 128;
  for (const bool squared : {false, true}) {
    const auto cost = cost_of(loop(squared), mesh, {{{}, {"a"}, {}}});
    ASSERT_EQ(cost.collectives.size(), 1U);
    EXPECT_EQ(cost.collectives[0].kind, "all-reduce");
    EXPECT_EQ(cost.collectives[0].bytes, (squared ? 8 : 1) * bytes);
    EXPECT_EQ(cost.flops, 8 * 2.0 * 64 * 128 * 128 / 4);
    EXPECT_GE(cost.temporary_bytes, 2 * bytes);  // the sum and a part of it
  }
}

}  // namespace
}  // namespace espalier::test
