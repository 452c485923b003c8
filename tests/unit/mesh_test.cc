// Meshes, pieces of arrays, and rules from logical to mesh axes.
#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "espalier/mesh/mesh.h"
#include "espalier/mesh/sharding_rules.h"
#include "tests/support/error_of.h"

namespace espalier::test {
namespace {

const Mesh kMesh({{"data", 2}, {"model", 3}});

TEST(Mesh, NumbersDevicesRowMajor) {
  EXPECT_EQ(kMesh.size(), 6);
  EXPECT_EQ(kMesh.size("model"), 3);
  EXPECT_EQ(kMesh.size(std::vector<std::string>{"model", "data"}), 6);
  EXPECT_EQ(kMesh.coordinates(4), (std::vector<int64_t>{1, 1}));
  EXPECT_EQ(kMesh.to_string(), "{data = 2, model = 3}");
  EXPECT_TRUE(kMesh.has("data"));
  EXPECT_FALSE(kMesh.has("batch"));
  EXPECT_EQ(Mesh().size(), 1);
  EXPECT_EQ(Mesh().coordinates(0).size(), 0U);
  EXPECT_EQ(Mesh().to_string(), "{}");
}

TEST(Mesh, RefusesBadAxes) {
  EXPECT_EQ(error_of([] { Mesh({{"a", 0}}); }), "mesh axis 'a' needs a size of at least 1, got 0");
  EXPECT_EQ(error_of([] { Mesh({{"a", 1}, {"b", 2}, {"a", 2}}); }), "mesh axis 'a' stands twice");
  EXPECT_EQ(error_of([] { Mesh({{"", 2}}); }), "mesh axis 0 has no name");
  EXPECT_EQ(error_of([] { kMesh.size("x"); }), "the mesh {data = 2, model = 3} has no axis 'x'");
}

TEST(Mesh, GroupsDevicesThatDifferAlongAxes) {
  using Groups = std::vector<std::vector<int64_t>>;
  const auto groups = [](std::vector<std::string> axes) { return kMesh.groups(axes); };
  EXPECT_EQ(groups({"model"}), (Groups{{0, 1, 2}, {3, 4, 5}}));
  EXPECT_EQ(groups({"data"}), (Groups{{0, 3}, {1, 4}, {2, 5}}));
  EXPECT_EQ(groups({"data", "model"}), (Groups{{0, 1, 2, 3, 4, 5}}));
  EXPECT_EQ(groups({"model", "data"}), (Groups{{0, 3, 1, 4, 2, 5}}));
  EXPECT_EQ(groups({}), (Groups{{0}, {1}, {2}, {3}, {4}, {5}}));
}

TEST(ShardSlice, CutsEvenPieces) {
  const auto slice = [](const PartitionSpec& spec, int64_t device) {
    return shard_slice(kMesh, spec, {12, 6}, device, "x");
  };
  EXPECT_EQ(slice({}, 3), (ShardSlice{{0, 0}, {12, 6}}));
  EXPECT_EQ(slice({{"data"}}, 4), (ShardSlice{{6, 0}, {6, 6}}));
  EXPECT_EQ(slice({{}, {"model"}}, 4), (ShardSlice{{0, 2}, {12, 2}}));
  EXPECT_EQ(slice({{"data"}, {"model"}}, 5), (ShardSlice{{6, 4}, {6, 2}}));
  // The first axis of a dim varies slowest.
  EXPECT_EQ(slice({{"data", "model"}}, 4), (ShardSlice{{8, 0}, {2, 6}}));
  EXPECT_EQ(slice({{"model", "data"}}, 4), (ShardSlice{{6, 0}, {2, 6}}));
}

TEST(ShardSlice, PiecesOfAllDevicesCoverTheArrayOnce) {
  std::set<Dims> offsets;
  for (int64_t device = 0; device < kMesh.size(); ++device) {
    offsets.insert(shard_slice(kMesh, {{"model"}, {"data"}}, {6, 2}, device, "x").offset);
  }
  EXPECT_EQ(offsets.size(), 6U);
}

TEST(ShardDims, RefusesWhatDoesNotDivide) {
  EXPECT_EQ(error_of([] {
              shard_dims(kMesh, {{}, {"data", "model"}}, {6, 8}, "parameter 'w'");
            }),
            "parameter 'w': dim 1 of shape [6, 8] is 8, which mesh axis 'data', 'model' of size 6 "
            "does not divide; change the size, the mesh or the sharding rule");
  EXPECT_EQ(error_of([] {
              shard_dims(kMesh, {{}, {}}, {6}, "x");
            }),
            "x: a sharding of 2 dims for an array of shape [6]");
  EXPECT_EQ(error_of([] { shard_dims(kMesh, {{"y"}}, {6}, "x"); }),
            "the mesh {data = 2, model = 3} has no axis 'y'");
}

TEST(ShardingRules, MapLogicalAxes) {
  ShardingRules rules;
  rules.axes = {{"batch", {"data"}}, {"embed", {"model", "data"}}, {"heads", {"model"}}};
  EXPECT_EQ(rules.resolve({"batch", "", "heads"}, kMesh), (PartitionSpec{{"data"}, {}, {"model"}}));
  // A mesh axis splits one dim only: the first that asks.
  EXPECT_EQ(rules.resolve({"batch", "embed"}, kMesh), (PartitionSpec{{"data"}, {"model"}}));
  EXPECT_EQ(rules.resolve({"embed", "batch"}, kMesh), (PartitionSpec{{"model", "data"}, {}}));
  EXPECT_EQ(rules.resolve({"unruled"}, kMesh), (PartitionSpec{{}}));
  EXPECT_EQ(rules.resolve({"embed"}, Mesh()), (PartitionSpec{{}})) << "one device: no sharding";
}

TEST(ShardingRules, PatternsOverrideTheLogicalAxes) {
  ShardingRules rules;
  rules.axes = {{"embed", {"data"}}};
  rules.params = {{"layers.*.wq.weight", {{"model"}, {}}}, {"layers.*", {{}, {}}}};
  const auto resolve = [&](const char* name) {
    return rules.resolve_param(name, {"", "embed"}, kMesh);
  };
  EXPECT_EQ(resolve("layers.0.wq.weight"), (PartitionSpec{{"model"}, {}}));
  EXPECT_EQ(resolve("layers.0.wk.weight"), (PartitionSpec{{}, {}}));
  EXPECT_EQ(resolve("head"), (PartitionSpec{{}, {"data"}}));
  EXPECT_EQ(rules.unmatched({"head", "layers.1.wq.bias"}),
            std::vector<std::string>{"layers.*.wq.weight"});
}

TEST(ShardingRules, NamesStandInForOthers) {
  ShardingRules rules;
  rules.axes = {{"seq", {"data"}}};
  EXPECT_EQ(rules.resolve({"stream|seq"}, kMesh), (PartitionSpec{{"data"}}));
  rules.axes["stream"] = {"model"};
  EXPECT_EQ(rules.resolve({"stream|seq", "seq"}, kMesh), (PartitionSpec{{"model"}, {"data"}}));
  rules.axes["stream"] = {};
  EXPECT_EQ(rules.resolve({"stream|seq"}, kMesh), (PartitionSpec{{}})) << "a rule to split nothing";
  EXPECT_EQ(rules.resolve({"other|stream|seq|"}, kMesh), (PartitionSpec{{}}));
  EXPECT_EQ(rules.resolve({"none|"}, kMesh), (PartitionSpec{{}}));
}

// wq is (heads, width, embed) here and (heads * width, embed) in checkpoints.
TEST(ShardingRules, PatternsForTheShapeInCheckpoints) {
  ShardingRules rules;
  rules.params = {{"wq", {{"model"}, {"data"}}}};
  const auto resolve = [&](const Dims& dims) {
    return rules.resolve_param("wq", {"heads", "", "embed"}, kMesh, {{0, 2}, dims});
  };
  EXPECT_EQ(resolve({3, 4, 8}), (PartitionSpec{{"model"}, {}, {"data"}}));
  EXPECT_EQ(resolve({2, 6, 8}), (PartitionSpec{{}, {"model"}, {"data"}}));
  EXPECT_EQ(resolve({2, 4, 8}), (PartitionSpec{{"model"}, {}, {"data"}})) << "an error later";
  EXPECT_EQ(rules.resolve_param("wq", {"heads", "", "embed"}, Mesh(), {{0, 2}, {3, 4, 8}}),
            (PartitionSpec{{}, {}, {}}));
  rules.params = {{"wq", {{"data"}, {"model"}, {}}}};
  EXPECT_EQ(resolve({3, 4, 8}), (PartitionSpec{{"data"}, {"model"}, {}}));
  rules.params = {{"wq", {{"data"}}}};
  EXPECT_EQ(error_of([&] {
              resolve({3, 4, 8});
            }),
            "[sharding.params] 'wq' gives 1 dims, but parameter 'wq' has 3 (2 in checkpoints)");
}

TEST(ShardingRules, NamesTheParametersThatNoPatternMatches) {
  ShardingRules rules;
  const std::vector<std::string> names = {"tok.w",          "layers.0.wq",   "layers.0.norm",
                                          "layers.1.wq",    "layers.1.norm", "h.*.norm",
                                          "layers.10.norm", "out.2"};
  EXPECT_TRUE(rules.left_to_rules(names).empty()) << "without patterns the rules are meant";
  rules.params = {{"layers.*.wq", {{}}}, {"tok.*", {{}}}};
  EXPECT_EQ(rules.left_to_rules(names),
            (std::vector<std::string>{"layers.*.norm", "h.*.norm", "out.*"}));
  rules.params.push_back({"*", {{}}});
  EXPECT_TRUE(rules.left_to_rules(names).empty());
}

TEST(ShardingRules, RefuseWhatTheMeshLacks) {
  ShardingRules rules;
  rules.axes = {{"embed", {"tp"}}};
  rules.params = {{"w*", {{"fsdp"}}}};
  EXPECT_EQ(error_of([&] { rules.resolve({"embed"}, kMesh); }),
            "the sharding rule for 'embed' names mesh axis 'tp', but the mesh is {data = 2, model "
            "= 3}; add the axis to [mesh] axes or change the rule");
  EXPECT_EQ(error_of([&] { rules.resolve_param("wq", {""}, kMesh); }),
            "the sharding rule for 'w*' names mesh axis 'fsdp', but the mesh is {data = 2, model "
            "= 3}; add the axis to [mesh] axes or change the rule");
  EXPECT_EQ(error_of([&] {
              rules.resolve_param("wq", {"", ""}, kMesh);
            }),
            "[sharding.params] 'w*' gives 1 dims, but parameter 'wq' has 2");
}

TEST(Pattern, StarsMatchAnyRun) {
  EXPECT_TRUE(pattern_matches("*", ""));
  EXPECT_TRUE(pattern_matches("a*c", "abcbc"));
  EXPECT_TRUE(pattern_matches("*.w*", "layers.0.wq"));
  EXPECT_TRUE(pattern_matches("**a", "ba"));
  EXPECT_TRUE(pattern_matches("", ""));
  EXPECT_FALSE(pattern_matches("", "a"));
  EXPECT_FALSE(pattern_matches("a*c", "abcb"));
  EXPECT_FALSE(pattern_matches("a.c", "abc")) << "only the star is special";
  EXPECT_FALSE(pattern_matches("a*b*c", "acb"));
}

TEST(PartitionSpec, Prints) { EXPECT_EQ(to_string(PartitionSpec{{"a", "b"}, {}}), "[[a, b], []]"); }

TEST(ShardingRules, NamesTheMeshAxesThatSplitNothing) {
  ShardingRules rules;
  rules.axes = {{"batch", {"data"}}};
  rules.params = {{"*.kernel", {{}, {"tp"}}}};
  const Mesh mesh({{"data", 2}, {"tp", 2}, {"model", 2}, {"one", 1}});
  EXPECT_EQ(rules.unused_axes(mesh), std::vector<std::string>{"model"});
}

}  // namespace
}  // namespace espalier::test
