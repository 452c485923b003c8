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

using Rules = std::map<std::string, std::vector<std::string>>;

// Of the names that '|' parts, the first that has a rule.
Rules::const_iterator rule_of(const Rules& rules, const std::string& logical) {
  for (size_t at = 0; at <= logical.size();) {
    const size_t end = std::min(logical.find('|', at), logical.size());
    const auto found = rules.find(logical.substr(at, end - at));
    if (found != rules.end()) return found;
    at = end + 1;
  }
  return rules.end();
}

// "blocks.12.w" as "blocks.*.w".
std::string without_numbers(const std::string& name) {
  std::string out;
  for (size_t at = 0; at <= name.size();) {
    const size_t end = std::min(name.find('.', at), name.size());
    const std::string part = name.substr(at, end - at);
    const bool number = !part.empty() && part.find_first_not_of("0123456789") == std::string::npos;
    out += (at == 0 ? "" : ".") + (number ? "*" : part);
    at = end + 1;
  }
  return out;
}

// A spec of the stored shape as one of the array.
PartitionSpec unfolded(const PartitionSpec& spec, const StoredShape& stored, const Mesh& mesh) {
  PartitionSpec out(stored.dims.size());
  for (size_t i = 0; i < spec.size(); ++i) {
    const size_t first = stored.first[i];
    const size_t end = i + 1 < spec.size() ? stored.first[i + 1] : out.size();
    size_t at = first;
    while (at < end && stored.dims[at] % mesh.size(spec[i]) != 0) ++at;
    out[at < end ? at : first] = spec[i];
  }
  return out;
}

}  // namespace

PartitionSpec ShardingRules::resolve(const LogicalAxes& logical, const Mesh& mesh) const {
  PartitionSpec spec(logical.size());
  std::string rule;
  for (size_t i = 0; i < logical.size(); ++i) {
    const auto found = rule_of(axes, logical[i]);
    if (found == axes.end()) continue;
    spec[i] = found->second;
    rule += (rule.empty() ? "'" : ", '") + found->first + "'";
  }
  return usable(spec, mesh, rule, true);
}

PartitionSpec ShardingRules::resolve_param(std::string_view name, const LogicalAxes& logical,
                                           const Mesh& mesh, const StoredShape& stored) const {
  for (const auto& [pattern, spec] : params) {
    if (!pattern_matches(pattern, name)) continue;
    const bool is_stored = spec.size() != logical.size() && !stored.first.empty();
    if (spec.size() != (is_stored ? stored.first.size() : logical.size())) {
      throw Error(
          "[sharding.params] '" + pattern + "' gives " + std::to_string(spec.size()) +
          " dims, but parameter '" + std::string(name) + "' has " + std::to_string(logical.size()) +
          (is_stored ? " (" + std::to_string(stored.first.size()) + " in checkpoints)" : ""));
    }
    const PartitionSpec given = usable(spec, mesh, "'" + pattern + "'", false);
    return is_stored ? unfolded(given, stored, mesh) : given;
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

std::vector<std::string> ShardingRules::left_to_rules(const std::vector<std::string>& names) const {
  std::vector<std::string> out;
  if (params.empty()) return out;
  for (const std::string& name : names) {
    const bool any = std::any_of(params.begin(), params.end(),
                                 [&](const auto& p) { return pattern_matches(p.first, name); });
    std::string shown = without_numbers(name);
    if (!any && std::find(out.begin(), out.end(), shown) == out.end()) {
      out.push_back(std::move(shown));
    }
  }
  return out;
}

}  // namespace espalier
