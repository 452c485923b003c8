// Which integers full_int takes for a type, and the text of those at its ends.
#include "espalier/ops/source.h"

#include <gtest/gtest.h>

#include <limits>

#include "espalier/transform/module.h"
#include "tests/support/error_of.h"

namespace espalier {
namespace {

TEST(FullInt, TakesWhatTheTypeHolds) {
  struct Range {
    DType dtype;
    int64_t low, high;
  };
  // From an unsigned type's low end up, negative values stand for their two's complement.
  const Range ranges[] = {{DType::kBool, 0, 1},
                          {DType::kS8, -128, 127},
                          {DType::kU8, -128, 255},
                          {DType::kS16, -32768, 32767},
                          {DType::kU16, -32768, 65535},
                          {DType::kS32, -2147483648, 2147483647},
                          {DType::kU32, -2147483648, 4294967295}};
  for (const auto& [dtype, low, high] : ranges) {
    const TensorType type{dtype, {2}};
    EXPECT_EQ(full_int(type, low).type(), type);
    EXPECT_EQ(full_int(type, high).type(), type);
    for (const int64_t value : {low - 1, high + 1}) {
      const std::string message = test::error_of([&] { full_int(type, value); });
      EXPECT_EQ(message.find("[full_int] cannot hold " + std::to_string(value) + " in "), 0u)
          << message;
      EXPECT_NE(message.find(to_string(type)), std::string::npos) << message;
    }
  }
  for (const DType dtype : {DType::kS64, DType::kU64, DType::kF32, DType::kBF16}) {
    for (const int64_t value :
         {std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()}) {
      EXPECT_EQ(full_int({dtype, {}}, value).type(), (TensorType{dtype, {}}));
    }
  }
}

TEST(FullInt, NegativeValuesOfUnsignedTypesAreTwosComplement) {
  const Function function = trace({}, [](const Tensors&) {
    return Tensors{full_int({DType::kU8, {}}, -1), full_int({DType::kU32, {}}, -2)};
  });
  const std::string text = to_stablehlo(function, {});
  EXPECT_NE(text.find("dense<255> : tensor<ui8>"), std::string::npos) << text;
  EXPECT_NE(text.find("dense<4294967294> : tensor<ui32>"), std::string::npos) << text;
}

}  // namespace
}  // namespace espalier
