// How parameters lie on a mesh: padding of the vocabulary alone, and messages about all else.
#include "espalier/nn/layout.h"

#include <gtest/gtest.h>

#include <cmath>

#include "espalier/ops/op_list.h"
#include "espalier/random/random.h"
#include "tests/support/error_of.h"
#include "tests/support/oracle.h"

namespace espalier {
namespace {

using test::error_of;

struct Model {
  ParamSpecs specs;
  Model() {
    const Init root(specs);
    (root / "tok").param("embedding", {61, 4}, normal_init(0.5), {"vocab", "embed"});
    (root / "out").param("kernel", {4, 61}, xavier_uniform(4, 61), {"embed", "vocab"});
    (root / "blocks").stacked(3).param("w", {4, 6}, xavier_uniform(4, 6), {"embed", "mlp"});
    (root / "norm").param("scale", {4}, ones_init(), {"embed"});
    (root / "norm").param("bias", {4}, zeros_init(), {"embed"});
  }
};

const Mesh kMesh({{"data", 4}, {"model", 2}});

TEST(LayoutTest, OnlyTheVocabularyIsPadded) {
  const Model model;
  ShardingRules rules;
  rules.axes = {{"vocab", {"model"}}, {"mlp", {"model"}}};
  const auto layouts = layout_params(model.specs, rules, kMesh);
  EXPECT_EQ(layouts[0].type.dims, (Dims{62, 4}));
  EXPECT_EQ(layouts[0].spec, (PartitionSpec{{"model"}, {}}));
  EXPECT_EQ(layouts[1].type.dims, (Dims{4, 62}));
  EXPECT_EQ(layouts[2].type.dims, (Dims{3, 4, 6}));
  EXPECT_EQ(layouts[2].spec, (PartitionSpec{{}, {}, {"model"}}));
  EXPECT_EQ(layouts[3].type.dims, (Dims{4}));
  rules.axes = {{"vocab", {"data", "model"}}};
  EXPECT_EQ(layout_params(model.specs, rules, kMesh)[0].type.dims, (Dims{64, 4}));
  EXPECT_EQ(layout_params(model.specs, {}, kMesh)[0].type.dims, (Dims{61, 4}));
  EXPECT_EQ(layout_params(model.specs, rules, Mesh())[0].type.dims, (Dims{61, 4}));
}

TEST(LayoutTest, AnyOtherDimMustBeDivided) {
  const Model model;
  ShardingRules rules;
  rules.axes = {{"mlp", {"data"}}};
  const std::string message = error_of([&] { layout_params(model.specs, rules, kMesh); });
  for (const char* part : {"parameter 'blocks.*.w'", "dim 2", "[3, 4, 6]", "'data'", "4"}) {
    EXPECT_NE(message.find(part), std::string::npos) << part << " is not in: " << message;
  }
}

TEST(LayoutTest, BadRules) {
  const Model model;
  ShardingRules rules;
  rules.axes = {{"mlp", {"tensor"}}};
  EXPECT_NE(error_of([&] { layout_params(model.specs, rules, kMesh); }).find("'tensor'"),
            std::string::npos);
  rules.axes.clear();
  rules.params = {{"block.*.w", {{}, {}, {"model"}}}};
  const std::string unmatched = error_of([&] { layout_params(model.specs, rules, kMesh); });
  EXPECT_NE(unmatched.find("'block.*.w' matches no parameter"), std::string::npos) << unmatched;
  rules.params = {{"blocks.*", {{"model"}}}};
  const std::string rank = error_of([&] { layout_params(model.specs, rules, kMesh); });
  EXPECT_NE(rank.find("gives 1 dims, but parameter 'blocks.*.w' has 3"), std::string::npos) << rank;
  rules.params = {{"blocks.*", {{}, {"data"}, {"model"}}}};
  EXPECT_EQ(layout_params(model.specs, rules, kMesh)[2].spec,
            (PartitionSpec{{}, {"data"}, {"model"}}));
}

TEST(LayoutTest, InitialValuesDoNotDependOnTheMesh) {
  const Model model;
  ShardingRules rules;
  rules.axes = {{"vocab", {"data", "model"}}};
  const auto values = [&](const Mesh& mesh, uint64_t seed) {
    const auto layouts = layout_params(model.specs, rules, mesh);
    const Function function = trace(
        {}, [&](const Tensors&) { return initialize(model.specs, layouts, random::key(seed)); });
    return test::evaluate(function, {});
  };
  const auto one = values(Mesh(), 3), mesh = values(kMesh, 3), other = values(Mesh(), 4);
  ASSERT_EQ(mesh[0].dims(), (Dims{64, 4}));
  for (size_t i = 0; i < 61 * 4; ++i) EXPECT_EQ(mesh[0].as<float>()[i], one[0].as<float>()[i]);
  for (size_t i = 61 * 4; i < 64 * 4; ++i) EXPECT_EQ(mesh[0].as<float>()[i], 0);
  for (size_t i = 0; i < 4; ++i) {
    for (size_t v = 0; v < 64; ++v) {
      EXPECT_EQ(mesh[1].as<float>()[i * 64 + v], v < 61 ? one[1].as<float>()[i * 61 + v] : 0);
    }
  }
  const auto layer = one[2].as<float>();
  EXPECT_NE(layer[0], layer[24]);  // layers differ
  EXPECT_NE(layer[0], other[2].as<float>()[0]);
  double largest = 0;
  for (const float x : layer) largest = std::max<double>(largest, std::abs(x));
  EXPECT_LE(largest, std::sqrt(0.6));  // sqrt(6 / (4 + 6))
  EXPECT_GT(largest, 0.9 * std::sqrt(0.6));
  for (const float x : one[3].as<float>()) EXPECT_EQ(x, 1);
  for (const float x : one[4].as<float>()) EXPECT_EQ(x, 0);
}

}  // namespace
}  // namespace espalier
