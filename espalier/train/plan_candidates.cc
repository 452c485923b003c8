#include "espalier/train/plan_candidates.h"

#include <algorithm>
#include <set>

namespace espalier {
namespace {

struct Axis {
  std::string name;
  bool required = false;  // a rule or pattern of the recipe's own names it
};

std::set<std::string> logical_axes_of(const RunConfig& config, const std::string& axis) {
  std::set<std::string> out;
  for (const auto& [logical, by] : config.sharding.rules) {
    if (std::find(by.begin(), by.end(), axis) != by.end()) out.insert(logical);
  }
  return out;
}

std::vector<Axis> axes_of(const RunConfig& config) {
  const NamedLists defaults = ShardingConfig().rules;
  std::vector<Axis> named;
  const auto add = [&](const std::string& name, bool required) {
    const auto found =
        std::find_if(named.begin(), named.end(), [&](const Axis& a) { return a.name == name; });
    if (found == named.end()) {
      named.push_back({name, required});
    } else {
      found->required |= required;
    }
  };
  for (const auto& [name, size] : config.mesh.axes) add(name, false);
  const size_t own_mesh = named.size();
  for (const auto& [pattern, spec] : config.sharding.params) {
    for (const auto& dim : spec) {
      for (const std::string& name : dim) add(name, true);
    }
  }
  for (const auto& rule : config.sharding.rules) {
    const bool is_default = std::find(defaults.begin(), defaults.end(), rule) != defaults.end();
    for (const std::string& name : rule.second) add(name, !is_default);
  }
  std::vector<Axis> own, others;
  std::set<std::set<std::string>> meanings;
  for (size_t i = 0; i < named.size(); ++i) {
    const auto meaning = logical_axes_of(config, named[i].name);
    if (!named[i].required && (meaning.empty() || meanings.contains(meaning))) continue;
    meanings.insert(meaning);
    (i < own_mesh ? own : others).push_back(named[i]);
  }
  others.insert(others.end(), own.begin(), own.end());
  return others;
}

void share(const std::vector<Axis>& axes, int64_t devices, const NamedInts& before,
           std::vector<NamedInts>& out) {
  const size_t at = before.size();
  if (at == axes.size()) {
    if (devices != 1) return;
    NamedInts mesh;
    for (size_t i = 0; i < axes.size(); ++i) {
      if (axes[i].required || before[i].second > 1) mesh.push_back(before[i]);
    }
    out.push_back(std::move(mesh));
    return;
  }
  for (const int64_t size : divisors(devices)) {
    NamedInts next = before;
    next.emplace_back(axes[at].name, size);
    share(axes, devices / size, next, out);
  }
}

}  // namespace

std::vector<int64_t> divisors(int64_t number) {
  std::vector<int64_t> out;
  for (int64_t i = 1; i <= number; ++i) {
    if (number % i == 0) out.push_back(i);
  }
  return out;
}

std::vector<NamedInts> candidate_meshes(const RunConfig& config, int64_t devices) {
  std::vector<NamedInts> out;
  share(axes_of(config), devices, {}, out);
  return out;
}

std::vector<CandidateRemat> candidate_remats(const RunConfig& config, const std::string& platform) {
  const std::vector<std::string> names = config.train.remat == "names"
                                             ? config.train.remat_names
                                             : std::vector<std::string>{"attn_out"};
  std::vector<CandidateRemat> out = {
      {"none"}, {"dots"}, {"dots_with_no_batch_dims"}, {"names", names}, {"everything"}};
  if (platform == "cpu") return out;
  out.push_back({"dots_with_no_batch_dims", {}, true});
  out.push_back({"names", {"block_input"}, true});
  const bool own = config.train.remat == "names" && config.train.offload;
  if (own && names != out.back().names) out.push_back({"names", names, true});
  return out;
}

}  // namespace espalier
