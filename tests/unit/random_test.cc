// What random functions refuse, and the types they give, without a plugin.
#include "espalier/random/random.h"

#include <gtest/gtest.h>

#include <functional>

#include "espalier/ir/parameter.h"

namespace espalier {
namespace {

TEST(Random, GivesTypes) {
  const Tensor key = random::key(3);
  EXPECT_EQ(key.type(), (TensorType{DType::kU32, {2}}));
  const Tensor keys = random::split(key, 5);
  EXPECT_EQ(keys.type(), (TensorType{DType::kU32, {5, 2}}));
  EXPECT_EQ(random::key_at(keys, 4).type(), key.type());
  EXPECT_EQ(random::fold_in(key, parameter({DType::kS32, {}})).type(), key.type());
  for (const DType dtype : {DType::kU32, DType::kS32, DType::kU64, DType::kS64}) {
    EXPECT_EQ(random::key(parameter({dtype, {}})).type(), key.type());
  }
  EXPECT_EQ(random::normal(key, {}).type(), (TensorType{DType::kF32, {}}));
  EXPECT_EQ(random::bernoulli(key, 0.5f, {2, 3}).type(), (TensorType{DType::kBool, {2, 3}}));
  const Tensor logits = parameter({DType::kF32, {2, 3, 4}});
  EXPECT_EQ(random::categorical(key, logits).type(), (TensorType{DType::kS32, {2, 3}}));
  EXPECT_EQ(random::categorical(key, logits, 1).type(), (TensorType{DType::kS32, {2, 4}}));
}

TEST(Random, RefusesWrongKeysAndShapes) {
  const Tensor key = random::key(0), number = parameter({DType::kF32, {}});
  const Tensor keys = random::split(key, 3);
  const std::vector<std::pair<const char*, std::function<void()>>> cases = {
      {"ui32[3, 2]", [&] { random::bits(keys, {4}); }},
      {"key_at", [&] { random::key_at(keys, 3); }},
      {"at least 1", [&] { random::split(key, 0); }},
      {"f32[]", [&] { random::fold_in(key, number); }},
      {"f32[]", [&] { random::key(number); }},
      {"low < high", [&] { random::truncated_normal(key, 2, -2, {4}); }},
      {"dim 0", [&] { random::categorical(key, number, 0); }},
      {"ui32[3, 2]", [&] { random::categorical(key, keys, 1); }},
  };
  for (const auto& [part, call] : cases) {
    try {
      call();
      ADD_FAILURE() << "accepted: " << part;
    } catch (const Error& error) {
      const std::string message = error.what();
      EXPECT_EQ(message.find("[random] "), 0u) << message;
      EXPECT_NE(message.find(part), std::string::npos) << message;
    }
  }
}

}  // namespace
}  // namespace espalier
