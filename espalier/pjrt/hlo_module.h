// The HLO message of an optimized program, for the files of this folder that read it.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "espalier/pjrt/optimized_program.h"
#include "espalier/pjrt/proto/hlo.pb.h"

namespace espalier {

// kUnimplemented for another format, kDataLoss when the bytes are no such message.
Result<wire::HloModuleProto> parse_hlo(const OptimizedProgram& program);

// A computation with its instructions by id; points into its module.
struct HloComputation {
  const wire::HloComputationProto* proto = nullptr;
  std::map<int64_t, const wire::HloInstructionProto*> by_id;
  std::map<int64_t, std::vector<const wire::HloInstructionProto*>> users;

  explicit HloComputation(const wire::HloComputationProto& computation);
  // Operand number `i`; null where there is none.
  const wire::HloInstructionProto* operand(const wire::HloInstructionProto& instruction,
                                           int i) const;
  const wire::HloInstructionProto* root() const;
};
using HloComputations = std::map<int64_t, HloComputation>;
HloComputations index_computations(const wire::HloModuleProto& module);

// How often the body of `loop`, a "while" of computation `in`, runs: what the compiler wrote down,
// or else counted from a counter that starts at a constant, grows by one and ends below another.
// Unset where neither is to be seen.
std::optional<double> trip_count(const HloComputations& all, const HloComputation& in,
                                 const wire::HloInstructionProto& loop);

}  // namespace espalier
