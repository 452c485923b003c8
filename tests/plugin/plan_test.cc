// `espalier plan`: a recipe for the devices that are here, compiled, and what it says where it
// cannot.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "espalier/train/plan.h"
#include "tests/support/program.h"
#include "tests/unit/data_testing.h"

namespace espalier::test {
namespace {

using Words = std::vector<std::string>;

constexpr const char* kRecipe = R"(
[model]
name = "llama3"
vocab_size = 512
max_seq_len = 32
dim = 64
n_layers = 3
n_heads = 4
n_kv_heads = 2
[data]
source = "synthetic"
seq_len = 32
batch_size = 8
[mesh]
axes = {fsdp = 4}
[train]
steps = 1
remat = "everything"
[runtime]
cache = false
)";

class PlanCommand : public testing::Test {
 protected:
  PlanCommand() { recipe_ = folder_.write("recipe.toml", kRecipe).string(); }
  Ended run(Words arguments) {
    arguments.insert(arguments.begin(), {"plan", recipe_});
    return Child(arguments, folder_ / "child").wait();
  }
  TemporaryFolder folder_;
  std::string recipe_;
};

TEST_F(PlanCommand, ComparesItsBestWithTheCompiler) {
  const Ended ended = run({"--check", "1", "--json", "-"});
  ASSERT_EQ(ended.status, 0) << ended.err;
  const auto plan = nlohmann::json::parse(ended.out, nullptr, false);
  ASSERT_FALSE(plan.is_discarded()) << ended.out;
  EXPECT_EQ(plan["devices"], 4);
  EXPECT_TRUE(plan["steps"][0]["seconds"].is_null());  // nothing is published of this machine
  ASSERT_TRUE(plan["steps"][0].contains("compiled")) << ended.out;
  const auto compiled = plan["steps"][0]["compiled"].get<CompiledStep>();
  EXPECT_EQ(plan["steps"][0]["argument_bytes"], compiled.argument_bytes);
  EXPECT_EQ(compiled.tokens, plan["tokens"]);
  EXPECT_GT(plan["steps"][0]["temporary_bytes"], 0);
  EXPECT_FALSE(plan["steps"][1].contains("compiled"));
}

TEST_F(PlanCommand, TellsTheArgumentsOfTheFirst) {
  const std::string file = (folder_ / "plan.json").string();
  const Ended ended = run({"--topology", "h100:4", "--json", file, "--limit", "2"});
  expect_ended(ended, 0, {"for h100:4 (4 x NVIDIA H100 80GB HBM3", "more: --limit"});
  EXPECT_TRUE(std::filesystem::exists(file));
}

TEST_F(PlanCommand, SaysWhyNot) {
  expect_ended(run({"--topology", "v9:2x4"}), 2, {"no machine is called 'v9'"});
  expect_ended(run({"--topology", "v3:2x4"}), 2, {"'v3:2x4'", "not known here"});
  expect_ended(run({"--topology", "h100:8", "--as-is"}), 2, {"has 4 devices, but h100:8 has 8"});
  expect_ended(
      run({"--topology", "v5e:1x1", "--set", "model.dim=16384", "--set", "model.n_layers=40"}), 1,
      {"nothing fits the 16.00 GiB of a TPU v5e", "What comes nearest needs"});
  expect_ended(run({"--check", "1", "--plugin", "gone/plugin.so"}), 1,
               {"no plugin at 'gone/plugin.so'"});
}

}  // namespace
}  // namespace espalier::test
