// What one run of a step needs of a device, foretold from its graph and its splits.
//
// Memory is that of a list of buffers (plan_buffers.h), each alive from the op that makes it to the
// last that reads it, in the order of tracing. An elementwise op, or an update in place, takes over
// a buffer of its size that ends with it. A loop's carries live in its body, what it stacks is
// written in place. The sum before a reduce-scatter exists as a whole array. Bytes accessed are
// those buffers, read and written by each op, as ProgramCost counts them.
#pragma once

#include <vector>

#include "espalier/pjrt/program_cost.h"
#include "espalier/train/plan_buffers.h"

namespace espalier::planning {

// Of each device; loops' bodies count as often as they run.
struct GraphCost {
  double temporary_bytes = 0;  // at once, beside arguments and the results that take their place
  double host_bytes = 0;       // waiting in the host's memory
  double flops = 0;            // of matrix products, and of those in attention's kernels
  double bytes_accessed = 0;
  std::vector<CollectiveCost> collectives;  // ordered by kind and group
};
GraphCost graph_cost(const Graph& graph, const Splits& splits, const PlatformTraits& traits);

}  // namespace espalier::planning
