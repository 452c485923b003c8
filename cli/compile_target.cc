#include "cli/compile_target.h"

#include "espalier/base/locate.h"

namespace espalier {

void CompileTarget::require_plugin() const {
  plugin_path(topology ? topology->plugin : config.runtime.plugin).value_or_throw();
}

CompileTarget compile_target(const std::string& recipe, std::vector<std::string> overrides,
                             const std::string& topology, const std::string& plugin) {
  if (!plugin.empty()) overrides.push_back("runtime.plugin=" + plugin);
  if (topology == "cpu") overrides.push_back("runtime.plugin=cpu");
  CompileTarget out{load_run_config(recipe, overrides).value_or_throw(), {}};
  if (topology.empty() || topology == "local" || topology == "cpu") return out;
  out.topology = parse_topology(topology).value_or_throw();
  if (!plugin.empty()) out.topology->plugin = plugin;
  return out;
}

}  // namespace espalier
