// Training gives the same losses on every mesh, scanned or unrolled, and with the batch in parts.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/tiny_training.h"
#include "tests/unit/data_testing.h"

namespace espalier::test {
namespace {

constexpr int64_t kSteps = 20;
constexpr double kTolerance = 1e-4;
const std::vector<MeshAxis> kOne, kBoth = {{"batch", 4}, {"model", 2}},
                                  kData = {{"batch", 8}, {"model", 1}};

void expect_same_losses(const std::vector<StepReport>& got, const std::vector<StepReport>& want,
                        const std::string& what) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_NEAR(got[i].loss, want[i].loss, kTolerance * want[i].loss) << what << ", step " << i + 1;
  }
}

// Programs that several tests need are compiled once.
class MeshLossesTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { folder_ = std::make_unique<TemporaryFolder>(); }
  static void TearDownTestSuite() { folder_.reset(); }
  static TinyTraining training(TinyOptions options) {
    options.program_cache = *folder_ / "programs";
    return TinyTraining(options);
  }
  static std::vector<StepReport> reports(const TinyOptions& options) {
    return training(options).run(0, kSteps);
  }
  // Each of two ways against one device, scanned.
  static void expect_equal(double dropout, int64_t accumulate,
                           const std::vector<TinyOptions>& ways) {
    const auto want = reports({.dropout = dropout, .accumulate = accumulate});
    EXPECT_LT(want.back().loss, want.front().loss - 0.2);  // it learns, so updates matter
    for (TinyOptions way : ways) {
      way.dropout = dropout;
      way.accumulate = accumulate;
      expect_same_losses(reports(way), want, Mesh(way.axes).to_string() + ", " + way.layers);
    }
  }

 private:
  static std::unique_ptr<TemporaryFolder> folder_;
};
std::unique_ptr<TemporaryFolder> MeshLossesTest::folder_;

// Every two of mesh, dropout, accumulation and way of repeating layers meet.
TEST_F(MeshLossesTest, Plain) {
  expect_equal(0, 1,
               {{.axes = kBoth, .layers = "scan"},
                {.axes = kData, .layers = "unroll"},
                {.axes = kOne, .layers = "unroll"}});
}
TEST_F(MeshLossesTest, WithDropout) { expect_equal(0.1, 1, {{.axes = kBoth, .layers = "unroll"}}); }
TEST_F(MeshLossesTest, WithAccumulation) {
  expect_equal(0, 2, {{.axes = kData, .layers = "scan"}, {.axes = kBoth, .layers = "unroll"}});
}
TEST_F(MeshLossesTest, WithDropoutAndAccumulation) {
  expect_equal(0.1, 2, {{.axes = kBoth, .layers = "scan"}, {.axes = kData, .layers = "scan"}});
}

TEST_F(MeshLossesTest, DropoutChangesThem) {
  const double with = training({.dropout = 0.1}).run(0, 1)[0].loss;
  EXPECT_GT(std::abs(with - training({}).run(0, 1)[0].loss), 1e-3);
}

TEST_F(MeshLossesTest, AStepOfTwoBatchesIsThatOfOneTwiceAsLarge) {
  expect_same_losses(reports({.axes = kData, .accumulate = 2}), reports({.batch_size = 16}),
                     "accumulate = 2");
}

TEST_F(MeshLossesTest, InitialParametersAreEqualBitForBit) {
  const auto want = training({}).stored_values();
  ASSERT_GT(want.size(), 90u);  // 3 arrays for each of 36 parameters
  size_t random = 0;
  for (const auto& axes : {kOne, kBoth, kData}) {
    for (const std::string layers : {"scan", "unroll"}) {
      const TinyTraining made = training({.axes = axes, .layers = layers});
      const auto got = made.stored_values();
      const std::string where = made.mesh.to_string() + ", " + layers;
      ASSERT_EQ(got.size(), want.size()) << where;
      for (const auto& [name, value] : want) {
        ASSERT_TRUE(got.contains(name)) << name << " on " << where;
        const HostArray& other = got.at(name);
        ASSERT_EQ(other.dims(), value.dims()) << name;
        EXPECT_EQ(std::memcmp(other.data(), value.data(), value.bytes()), 0)
            << name << " on " << where;
        if (name.ends_with("query.kernel")) {
          const auto numbers = value.as<float>();
          random += numbers[0] != 0 && numbers[0] != numbers[1];
        }
      }
    }
  }
  EXPECT_GE(random, 2u);
  // Layers differ from each other.
  const auto &first = want.at("blocks.0.l1.kernel"), &second = want.at("blocks.1.l1.kernel");
  EXPECT_NE(std::memcmp(first.data(), second.data(), first.bytes()), 0);
}

}  // namespace
}  // namespace espalier::test
