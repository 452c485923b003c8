// OptimizedProgram: what the compiler made of a module.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "espalier/base/error.h"

namespace espalier {

// How often each name occurs.
using Counts = std::map<std::string, int64_t>;

struct OptimizedProgram {
  std::string format;  // "hlo": an HloModuleProto; "hlo_with_config": with its configuration
  std::string bytes;

  // HLO opcodes ("all-reduce", "all-gather", "custom-call", "fusion", ...) over all computations,
  // bodies of fusions and loops included, each counted once however often a loop runs it.
  // Asynchronous collectives appear as the compiler wrote them ("all-reduce-start").
  // kUnimplemented for another format, kDataLoss when the bytes are no such message.
  Result<Counts> opcode_counts() const;
  // Targets of the custom calls, e.g. "__cudnn$fmhaSoftmax".
  Result<Counts> custom_call_targets() const;
};

}  // namespace espalier
