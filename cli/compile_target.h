// What `compile` and `plan` are asked to compile, and for which devices.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "espalier/pjrt/named_topology.h"
#include "espalier/train/config.h"

namespace espalier {

struct CompileTarget {
  RunConfig config;
  std::optional<NamedTopology> topology;  // unset: the recipe's own plugin

  // Throws Error, saying how to get it, where the plugin that compiles is not there: said before
  // anything is read, as the commonest reason why nothing can be compiled.
  void require_plugin() const;
};

// From --set, --topology ("", "local" and "cpu" are no named one) and --plugin. Throws Error.
CompileTarget compile_target(const std::string& recipe, std::vector<std::string> overrides,
                             const std::string& topology, const std::string& plugin);

}  // namespace espalier
