#include "espalier/pjrt/optimized_program.h"

#include <fmt/format.h>

#include "espalier/pjrt/hlo_module.h"

namespace espalier {
Result<wire::HloModuleProto> parse_hlo(const OptimizedProgram& program) {
  bool parsed = false;
  wire::HloModuleProtoWithConfig with_config;
  if (program.format == "hlo_with_config") {
    parsed = with_config.ParseFromString(program.bytes);
  } else if (program.format == "hlo") {
    parsed = with_config.mutable_hlo_module()->ParseFromString(program.bytes);
  } else {
    return Failure{Code::kUnimplemented,
                   fmt::format("the optimized program comes in the format '{}'; only 'hlo' and "
                               "'hlo_with_config' can be read",
                               program.format)};
  }
  if (!parsed) {
    return Failure{Code::kDataLoss,
                   fmt::format("the optimized program ({} bytes, format '{}') is not a valid HLO "
                               "message",
                               program.bytes.size(), program.format)};
  }
  return std::move(*with_config.mutable_hlo_module());
}

namespace {

template <class Visit>
Result<Counts> count(const OptimizedProgram& program, const Visit& visit) {
  ESPALIER_ASSIGN(const auto module, parse_hlo(program));
  Counts counts;
  for (const auto& computation : module.computations()) {
    for (const auto& instruction : computation.instructions()) visit(instruction, counts);
  }
  return counts;
}

}  // namespace

Result<Counts> OptimizedProgram::opcode_counts() const {
  return count(*this, [](const wire::HloInstructionProto& instruction, Counts& counts) {
    ++counts[instruction.opcode()];
  });
}

Result<Counts> OptimizedProgram::custom_call_targets() const {
  return count(*this, [](const wire::HloInstructionProto& instruction, Counts& counts) {
    if (instruction.opcode() == "custom-call") ++counts[instruction.custom_call_target()];
  });
}

}  // namespace espalier
