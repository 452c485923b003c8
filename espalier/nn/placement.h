// Placement: where a model's call will run. Models need not know it; what serves them may.
#pragma once

#include <memory>
#include <string>

#include "espalier/mesh/sharding_rules.h"

namespace espalier {

struct Placement {
  std::string platform;  // the plugin's name for its devices ("cpu", "cuda", "tpu"); empty: unknown
  Mesh mesh{};           // without axes: one device
  ShardingRules rules{};
};
using PlacementPtr = std::shared_ptr<const Placement>;

}  // namespace espalier
