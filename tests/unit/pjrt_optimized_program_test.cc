#include "espalier/pjrt/optimized_program.h"

#include <gtest/gtest.h>

#include "espalier/pjrt/proto/hlo.pb.h"

namespace espalier {
namespace {

wire::HloModuleProto module() {
  wire::HloModuleProto out;
  auto* body = out.add_computations();
  body->add_instructions()->set_opcode("add");
  auto* entry = out.add_computations();
  entry->add_instructions()->set_opcode("add");
  entry->add_instructions()->set_opcode("all-reduce");
  auto* call = entry->add_instructions();
  call->set_opcode("custom-call");
  call->set_custom_call_target("scale");
  return out;
}

TEST(OptimizedProgram, CountsOpcodesOfAllComputations) {
  const OptimizedProgram program{"hlo", module().SerializeAsString()};
  const Counts expected = {{"add", 2}, {"all-reduce", 1}, {"custom-call", 1}};
  EXPECT_EQ(program.opcode_counts().value_or_throw(), expected);
  EXPECT_EQ(program.custom_call_targets().value_or_throw(), (Counts{{"scale", 1}}));
}

TEST(OptimizedProgram, ReadsAModuleWithConfiguration) {
  wire::HloModuleProtoWithConfig with_config;
  *with_config.mutable_hlo_module() = module();
  const OptimizedProgram program{"hlo_with_config", with_config.SerializeAsString()};
  EXPECT_EQ(program.opcode_counts().value_or_throw().at("add"), 2);
}

TEST(OptimizedProgram, RefusesOtherFormatsAndDamage) {
  const auto other = OptimizedProgram{"mlir", ""}.opcode_counts();
  ASSERT_FALSE(other);
  EXPECT_EQ(other.failure().code, Code::kUnimplemented);
  EXPECT_NE(other.failure().message.find("'mlir'"), std::string::npos);
  const std::string bytes = module().SerializeAsString();
  const auto cut = OptimizedProgram{"hlo", bytes.substr(0, bytes.size() - 3)}.opcode_counts();
  ASSERT_FALSE(cut);
  EXPECT_EQ(cut.failure().code, Code::kDataLoss);
}

}  // namespace
}  // namespace espalier
