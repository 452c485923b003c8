#include "espalier/transform/residuals.h"

#include <algorithm>
#include <unordered_set>

#include "espalier/ir/parameter.h"
#include "espalier/ops/annotate.h"
#include "espalier/ops/elementwise.h"
#include "espalier/ops/shape.h"
#include "espalier/transform/structured.h"

namespace espalier {
namespace {

using NodeSet = std::unordered_set<const Node*>;

// Views cost less to make again than to keep; so do numbers made wider.
bool is_view(const Node& node) {
  const auto* convert = node.as<Convert>();
  return node.as<BroadcastInDim>() != nullptr || node.as<Reshape>() != nullptr ||
         node.as<Shard>() != nullptr || node.as<StopGradient>() != nullptr ||
         node.as<CheckpointName>() != nullptr ||
         (convert != nullptr && byte_size(convert->dtype) > byte_size(node.operands[0].dtype()));
}

// Whether a value is a parameter moved or converted, as a weight in the type to compute in.
bool is_form_of(const Tensor& t, const NodeSet& params) {
  const Node* node = &t.node();
  while (is_view(*node) || node->as<Convert>() != nullptr || node->as<Transpose>() != nullptr ||
         node->as<Slice>() != nullptr) {
    node = &node->operands[0].node();
  }
  return params.contains(node);
}

// Finds the kept value that a forward value is equal to.
class Finder {
 public:
  Finder(const Keeping& keeping, const Tensors& outputs) : keeping_(keeping) {
    for (const auto& node : reachable(outputs)) {
      forward_.insert(node.get());
      const Tensor named(node, 0);
      if (keeping.by_policy && node->as<CheckpointName>() != nullptr && keeping.keeps(named)) {
        names_.emplace(node->operands[0], named);
      }
    }
  }
  // Empty where the value is to be computed again.
  Tensor operator()(const Tensor& t) const {
    if (!forward_.contains(&t.node())) return {};
    if (keeping_.keeps(t)) return t;
    if (!keeping_.by_policy) return {};
    if (const auto named = names_.find(t); named != names_.end()) return named->second;
    const auto* custom = t.node().as<CustomVjp>();
    return custom == nullptr ? Tensor() : (*this)(t.node().operands[custom->inputs + t.index()]);
  }

 private:
  const Keeping& keeping_;
  NodeSet forward_;
  TensorMap names_;  // what bears a kept name, to the named
};

}  // namespace

Tensors part(const Tensors& all, size_t first, size_t count) {
  const auto begin = all.begin() + static_cast<int64_t>(first);
  return {begin, begin + static_cast<int64_t>(count)};
}

Tensors chosen(const Tensors& all, const std::vector<size_t>& which) {
  Tensors out;
  for (size_t i : which) out.push_back(all[i]);
  return out;
}

std::vector<size_t> indices_of(const std::vector<bool>& flags) {
  std::vector<size_t> out;
  for (size_t i = 0; i < flags.size(); ++i) {
    if (flags[i]) out.push_back(i);
  }
  return out;
}

Keeping keep_all(const Function& body, const std::vector<bool>& given) {
  NodeSet free_params;
  for (size_t i = 0; i < body.params.size(); ++i) {
    if (given[i]) free_params.insert(&body.params[i].node());
  }
  return {
      [free_params](const Tensor& t) { return !is_view(t.node()) && !is_form_of(t, free_params); }};
}

Split split(const Function& body, const std::vector<bool>& active, const Keeping& keeping) {
  Split out;
  out.wrt = indices_of(active);
  out.results = active_results(body, active);
  out.linear = linearize(body.results, chosen(body.params, out.wrt));
  Tensors cts;
  for (size_t i = 0; i < body.results.size(); ++i) {
    cts.push_back(out.results[i] ? parameter(body.results[i].type()) : Tensor());
  }
  const Tensors grads = out.linear.pullback(cts);

  const Finder find(keeping, out.linear.outputs);
  std::unordered_map<const Node*, size_t> params;
  for (size_t i = 0; i < body.params.size(); ++i) params[&body.params[i].node()] = i;
  out.params.assign(body.params.size(), false);

  std::unordered_set<Tensor, TensorHash> seen, saved;
  std::vector<std::pair<Tensor, Tensor>> aliases;
  Tensors pending;
  for (const Tensor& t : grads) {
    if (!t.empty()) pending.push_back(t);
  }
  while (!pending.empty()) {
    const Tensor t = pending.back();
    pending.pop_back();
    if (t.node().constant || !seen.insert(t).second) continue;
    if (const auto param = params.find(&t.node()); param != params.end()) {
      out.params[param->second] = true;
    } else if (const Tensor kept = find(t); !kept.empty()) {
      if (saved.insert(kept).second) out.saved.push_back(kept);
      if (kept != t) aliases.emplace_back(t, kept);
    } else {
      for (const Tensor& operand : t.node().operands) pending.push_back(operand);
    }
  }
  // The order of a set of pointers would differ from run to run.
  std::sort(out.saved.begin(), out.saved.end(), [](const Tensor& a, const Tensor& b) {
    return std::pair(a.node().id, a.index()) < std::pair(b.node().id, b.index());
  });
  for (const auto& [t, kept] : aliases) {
    const auto at = std::find(out.saved.begin(), out.saved.end(), kept);
    out.aliases.emplace_back(t, static_cast<size_t>(at - out.saved.begin()));
  }
  return out;
}

}  // namespace espalier
