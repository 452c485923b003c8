#include "espalier/mesh/sharding_rules.h"

#include <algorithm>
#include <set>

namespace espalier {

bool pattern_matches(std::string_view pattern, std::string_view text) {
  // Greedy matching with one point to come back to: the last star seen.
  size_t p = 0, t = 0, star = std::string_view::npos, resume = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = t;
    } else if (p < pattern.size() && pattern[p] == text[t]) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++resume;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

namespace {

// Checks that every axis exists. One that an earlier dim took is dropped, or an error.
PartitionSpec usable(const PartitionSpec& spec, const Mesh& mesh, const std::string& rule,
                     bool repeats_allowed) {
  std::set<std::string> taken;
  PartitionSpec out(spec.size());
  for (size_t i = 0; i < spec.size(); ++i) {
    for (const std::string& axis : spec[i]) {
      if (mesh.axes().empty()) continue;  // one device: every rule is void
      if (!mesh.has(axis)) {
        throw Error("the sharding rule for " + rule + " names mesh axis '" + axis +
                    "', but the mesh is " + mesh.to_string() +
                    "; add the axis to [mesh] axes or change the rule");
      }
      if (taken.insert(axis).second) {
        out[i].push_back(axis);
      } else if (!repeats_allowed) {
        throw Error("[sharding.params] " + rule + " names mesh axis '" + axis +
                    "' twice; an axis can split one dim only");
      }
    }
  }
  return out;
}

}  // namespace

PartitionSpec ShardingRules::resolve(const LogicalAxes& logical, const Mesh& mesh) const {
  PartitionSpec spec(logical.size());
  std::string rule;
  for (size_t i = 0; i < logical.size(); ++i) {
    const auto found = axes.find(logical[i]);
    if (found == axes.end()) continue;
    spec[i] = found->second;
    rule += (rule.empty() ? "'" : ", '") + logical[i] + "'";
  }
  return usable(spec, mesh, rule, true);
}

PartitionSpec ShardingRules::resolve_param(std::string_view name, const LogicalAxes& logical,
                                           const Mesh& mesh) const {
  for (const auto& [pattern, spec] : params) {
    if (!pattern_matches(pattern, name)) continue;
    if (spec.size() != logical.size()) {
      throw Error("[sharding.params] '" + pattern + "' gives " + std::to_string(spec.size()) +
                  " dims, but parameter '" + std::string(name) + "' has " +
                  std::to_string(logical.size()));
    }
    return usable(spec, mesh, "'" + pattern + "'", false);
  }
  return resolve(logical, mesh);
}

std::vector<std::string> ShardingRules::unused_axes(const Mesh& mesh) const {
  std::set<std::string> named;
  for (const auto& [logical, by] : axes) named.insert(by.begin(), by.end());
  for (const auto& [pattern, spec] : params) {
    for (const auto& by : spec) named.insert(by.begin(), by.end());
  }
  std::vector<std::string> out;
  for (const MeshAxis& axis : mesh.axes()) {
    if (axis.size > 1 && !named.contains(axis.name)) out.push_back(axis.name);
  }
  return out;
}

std::vector<std::string> ShardingRules::unmatched(const std::vector<std::string>& names) const {
  std::vector<std::string> out;
  for (const auto& [pattern, spec] : params) {
    const bool any = std::any_of(names.begin(), names.end(),
                                 [&](const std::string& n) { return pattern_matches(pattern, n); });
    if (!any) out.push_back(pattern);
  }
  return out;
}

}  // namespace espalier
