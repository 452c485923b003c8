// From a function to a StableHLO module with Shardy annotations.
#pragma once

#include <optional>
#include <string>

#include "espalier/ir/function.h"
#include "espalier/mesh/sharding_rules.h"

namespace espalier {

struct ModuleOptions {
  std::string name = "espalier";
  Mesh mesh;            // without axes: one device and no annotations
  ShardingRules rules;  // for the logical axes of shard()
  // One spec per parameter and per result; an absent result spec leaves that choice to Shardy.
  std::vector<PartitionSpec> in_specs;
  std::vector<std::optional<PartitionSpec>> out_specs;
  // Per parameter: the result that takes over its memory (equal type and spec).
  std::vector<std::optional<int64_t>> donated;
};

// Simplifies the function and prints it; equal functions give equal text. Throws Error where a
// parameter's or result's dim is not divided evenly.
std::string to_stablehlo(const Function& function, const ModuleOptions& options);

}  // namespace espalier
