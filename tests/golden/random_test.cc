// Random numbers equal jax.random's (0.10.2), on one device and on eight.
//
// Everything is compared bit for bit: key, split, fold_in, bits, uniform, normal,
// truncated_normal, bernoulli and categorical. Integers, uniform and bernoulli are exact on any
// XLA. normal, truncated_normal and categorical go through the compiler's erf_inv, erf and log,
// which the CPU plugin (XLA of jaxlib 0.11.2) and jaxlib 0.10.2 expand into the same polynomials,
// also where the compiler folds constants; a plugin with others would differ in these three alone,
// in the last places.
#include <array>
#include <bit>
#include <cmath>

#include "espalier/ops/elementwise.h"
#include "espalier/ops/shape.h"
#include "espalier/ops/source.h"
#include "espalier/random/random.h"
#include "tests/golden/golden_support.h"

namespace espalier::test {
namespace {

constexpr std::array<uint32_t, 5> kSeeds = {0, 1, 42, 1234, 2147483655};
const std::vector<std::pair<std::string, Dims>> kShapes = {
    {"5", {5}}, {"4x6", {4, 6}}, {"3x2x7", {3, 2, 7}}};

struct Named {
  std::vector<std::string> names;
  Tensors values;
  void add(const std::string& name, const Tensor& value) {
    names.push_back(name);
    values.push_back(value);
  }
};

// The reference's logits: element number modulo 5.
Tensor logits(const Dims& dims) {
  std::vector<float> values;
  for (int64_t i = 0; i < num_elements(dims); ++i) values.push_back(static_cast<float>(i % 5));
  return constant(HostArray::from<float>(dims, values));
}

// Everything that the reference has for a seed.
Named draw(const Tensor& key) {
  Named out;
  out.add("key", key);
  out.add("split3", random::split(key, 3));
  out.add("fold_in_7", random::fold_in(key, 7));
  for (const auto& [label, dims] : kShapes) {
    out.add("bits." + label, random::bits(key, dims));
    out.add("uniform." + label, random::uniform(key, dims));
    out.add("normal." + label, random::normal(key, dims));
    out.add("truncated_normal_2." + label, random::truncated_normal(key, -2, 2, dims));
    out.add("bernoulli_0.9." + label, random::bernoulli(key, 0.9f, dims));
    out.add("categorical." + label, random::categorical(key, logits(dims)));
  }
  return out;
}

// Units in the last place between two floats of like sign.
int64_t ulps(float a, float b) {
  const auto ordered = [](float x) {
    const auto bits = std::bit_cast<int32_t>(x);
    return static_cast<int64_t>(bits < 0 ? std::numeric_limits<int32_t>::min() - bits : bits);
  };
  return std::abs(ordered(a) - ordered(b));
}

void expect_equal(const HostArray& got, const HostArray& expected, const std::string& name) {
  ASSERT_EQ(got.size(), expected.size()) << name;
  const bool floats = got.dtype() == DType::kF32;
  const HostArray a64 = floats ? HostArray() : got.converted(DType::kS64);
  const HostArray b64 = floats ? HostArray() : expected.converted(DType::kS64);
  for (int64_t i = 0; i < got.size(); ++i) {
    const auto at = static_cast<size_t>(i);
    if (floats) {
      const float a = got.as<float>()[at], b = expected.as<float>()[at];
      EXPECT_EQ(ulps(a, b), 0) << name << "[" << i << "]: " << a << " and " << b;
    } else {
      EXPECT_EQ(a64.as<int64_t>()[at], b64.as<int64_t>()[at]) << name << "[" << i << "]";
    }
  }
}

class RandomGolden : public GoldenTest {
 protected:
  void SetUp() override { open("random.safetensors"); }
};

TEST_F(RandomGolden, EqualsJaxForSeedsGivenAtRunTime) {
  Named named;
  const Function function = trace({{DType::kU32, {}}}, [&](const Tensors& in) {
    named = draw(random::key(in[0]));
    return named.values;
  });
  Compiled program(Mesh(), function);
  for (const uint32_t seed : kSeeds) {
    const std::vector<HostArray> got = program({HostArray::scalar<uint32_t>(seed)});
    for (size_t i = 0; i < got.size(); ++i) {
      const std::string name = "seed" + std::to_string(seed) + "." + named.names[i];
      expect_equal(got[i], golden(name), name);
    }
  }
}

// The compiler may compute a program without arguments itself.
TEST_F(RandomGolden, EqualsJaxForSeedsInTheProgram) {
  for (const uint32_t seed : kSeeds) {
    Named named;
    const Function function = trace({}, [&](const Tensors&) {
      named = draw(random::key(seed));
      return named.values;
    });
    const std::vector<HostArray> got = Compiled(Mesh(), function)({});
    for (size_t i = 0; i < got.size(); ++i) {
      const std::string name = "seed" + std::to_string(seed) + "." + named.names[i];
      expect_equal(got[i], golden(name), name);
    }
  }
}

TEST_F(RandomGolden, DoesNotDependOnTheMesh) {
  const Dims dims = {16, 6, 8};
  const Function function = trace({{DType::kU32, {}}}, [&](const Tensors& in) {
    const Tensor key = random::key(in[0]);
    return Tensors{random::bits(key, dims), random::normal(key, dims),
                   random::truncated_normal(key, -2, 2, dims), random::bernoulli(key, 0.3f, dims),
                   random::categorical(key, full({DType::kF32, dims}, 0), 1)};
  });
  const HostArray seed = HostArray::scalar<uint32_t>(42);
  const std::vector<HostArray> alone = Compiled(Mesh(), function)({seed});
  const Mesh mesh({{"a", 4}, {"b", 2}});
  const PartitionSpec split = {{"a"}, {}, {"b"}};
  const std::vector<HostArray> sharded = Compiled(
      mesh, function, {{}}, {split, split, {{"b", "a"}, {}, {}}, split, {{"a"}, {"b"}}})({seed});
  for (size_t i = 0; i < alone.size(); ++i) {
    ASSERT_EQ(alone[i].bytes(), sharded[i].bytes());
    EXPECT_EQ(std::memcmp(alone[i].data(), sharded[i].data(), alone[i].bytes()), 0)
        << "result " << i;
  }
}

// Past 2^32 elements the counter's upper word counts. The last row of an array of 2^33 equals what
// the generator gives for those counters.
TEST_F(RandomGolden, CountsPast32Bits) {
  const Function function = trace({{DType::kU32, {}}}, [](const Tensors& in) {
    const Tensor all = random::bits(random::key(in[0]), {int64_t{1} << 31, 4});
    return Tensors{slice_dim(all, 0, (int64_t{1} << 31) - 2, int64_t{1} << 31)};
  });
  const auto got = Compiled(Mesh(), function)({HostArray::scalar<uint32_t>(42)});
  // jax: threefry2x32_p.bind(0, 42, 1, 2^32 - 8 + i), both words xored.
  const std::vector<uint32_t> expected = {643247307,  453718908,  486733454, 3011146778,
                                          1683407612, 1371122556, 516907322, 2205938995};
  const auto values = got[0].as<uint32_t>();
  EXPECT_EQ(std::vector<uint32_t>(values.begin(), values.end()), expected);
}

}  // namespace
}  // namespace espalier::test
