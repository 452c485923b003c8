// ProgramCost: what one run of a compiled program moves, read from its optimized HLO.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "espalier/base/error.h"
#include "espalier/pjrt/optimized_program.h"

namespace espalier {

// All collectives of one kind among groups of one size.
struct CollectiveCost {
  std::string kind;        // "all-gather", "all-reduce", "reduce-scatter", "all-to-all", ...
  int64_t group_size = 1;  // devices that take part in each
  double count = 0;        // started by a device in one run
  // Of the whole array on a device: the result of an all-gather, the operand of the others.
  double bytes = 0;
  // What a device receives for them on a ring: (g-1)/g of `bytes` among g devices, twice that for
  // an all-reduce, all of a collective-permute. Switches that sum on the way (NVLink's) need less.
  double received_bytes = 0;
};

// Of one device. A loop's body counts as often as the compiler knows that it runs, of a conditional
// the branch that moves most.
struct ProgramCost {
  std::vector<CollectiveCost> collectives;  // ordered by kind and group
  // Between the device's main memory and its units: operands and results of every op, a fusion
  // being one op, each read or written once; of what only a slice is read or replaced, the slice.
  // What the compiler keeps in the chip's own memory (TPU's VMEM) is left out, what a cache saves
  // is not.
  double bytes_accessed = 0;
  double host_bytes = 0;      // to and from memory of the host
  int64_t unknown_loops = 0;  // loops of unknown length, whose body counts once
};

// `devices`: that the program is compiled for. kUnimplemented, kDataLoss: as opcode_counts().
Result<ProgramCost> program_cost(const OptimizedProgram& program, int64_t devices);

}  // namespace espalier
