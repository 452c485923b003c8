// The gradient of rematerialized bodies.
#include <algorithm>

#include "espalier/ops/annotate.h"
#include "espalier/ops/control.h"
#include "espalier/ops/dot.h"
#include "espalier/transform/residuals.h"
#include "espalier/transform/structured.h"

namespace espalier {
namespace {

bool saves(const RematPolicy& policy, const Node& node) {
  switch (policy.saves) {
    case RematPolicy::Saves::kNothing:
      return false;
    case RematPolicy::Saves::kDots:
      return node.as<DotGeneral>() != nullptr;
    case RematPolicy::Saves::kDotsWithNoBatchDims: {
      const auto* dot = node.as<DotGeneral>();
      return dot != nullptr && dot->left_batch.empty();
    }
    case RematPolicy::Saves::kNames: {
      const auto* named = node.as<CheckpointName>();
      return named != nullptr && std::find(policy.names.begin(), policy.names.end(),
                                           named->value_name) != policy.names.end();
    }
  }
  return false;
}

Tensors moved(const Tensors& all, MemoryKind to) {
  Tensors out;
  for (const Tensor& t : all) out.push_back(place_in_memory(t, to));
  return out;
}

}  // namespace

void linearize_remat(const Remat& op, const Tensors& operands, const std::vector<bool>& active,
                     LinearNode& out) {
  const RematPolicy& policy = op.policy;
  const Keeping keeping{[policy](const Tensor& t) { return saves(policy, t.node()); }, true};
  const Split parts = split(*op.body, active, keeping);

  Remat forward = op;
  auto augmented = std::make_shared<Function>();
  augmented->params = op.body->params;
  augmented->results = parts.linear.outputs;
  const Tensors kept = policy.offload ? moved(parts.saved, MemoryKind::kPinnedHost) : parts.saved;
  augmented->results.insert(augmented->results.end(), kept.begin(), kept.end());
  forward.body = augmented;
  const Tensors all = apply_all(forward, operands);
  const size_t results = op.body->results.size();
  out.outputs = part(all, 0, results);
  out.active = parts.results;
  const Tensors saved = part(all, results, parts.saved.size());
  const std::vector<size_t> read = indices_of(parts.params);

  out.pullback = [=, params = op.body->params, guarded = op.guarded](const Tensors& ct) {
    // The barrier ties the second computation to the cotangents, so that the compiler neither
    // merges it with the forward pass nor starts it early.
    Tensors tied = chosen(operands, read);
    tied.insert(tied.end(), saved.begin(), saved.end());
    for (const Tensor& t : ct) {
      if (!t.empty()) tied.push_back(t);
    }
    if (guarded) tied = optimization_barrier(tied);
    TensorMap map;
    for (size_t i = 0; i < operands.size(); ++i) {
      if (!parts.params[i]) map.emplace(params[i], operands[i]);
    }
    for (size_t k = 0; k < read.size(); ++k) map.emplace(params[read[k]], tied[k]);
    Tensors values = part(tied, read.size(), saved.size());
    if (policy.offload) values = moved(values, MemoryKind::kDevice);
    for (size_t k = 0; k < saved.size(); ++k) map.emplace(parts.saved[k], values[k]);
    for (const auto& [t, k] : parts.aliases) map.emplace(t, values[k]);
    Tensors cts;
    size_t next = read.size() + saved.size();
    for (const Tensor& t : ct) cts.push_back(t.empty() ? t : tied[next++]);
    const Tensors by = substitute(parts.linear.pullback(cts), map);
    Tensors grads(operands.size());
    for (size_t k = 0; k < by.size(); ++k) grads[parts.wrt[k]] = by[k];
    return grads;
  };
}

}  // namespace espalier
