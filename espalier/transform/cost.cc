#include "espalier/transform/cost.h"

#include <algorithm>

#include "espalier/ops/control.h"
#include "espalier/ops/dot.h"
#include "espalier/ops/kernel_calls.h"
#include "espalier/ops/shard_map.h"
#include "espalier/transform/simplify.h"

namespace espalier {
namespace {

double node_flops(const Node& node);

double results_flops(const Tensors& results) {
  double sum = 0;
  for (const auto& node : reachable(results)) sum += node_flops(*node);
  return sum;
}

double node_flops(const Node& node) {
  if (const auto* dot = node.as<DotGeneral>()) {
    double contracted = 1;
    for (const int64_t d : dot->left_contract) {
      contracted *= static_cast<double>(node.operands[0].dim(d));
    }
    return 2 * contracted * static_cast<double>(num_elements(node.types[0].dims));
  }
  if (const auto* scan = node.as<Scan>()) {
    return static_cast<double>(scan->length) * results_flops(scan->body->results);
  }
  if (const auto* loop = node.as<While>()) {
    return results_flops(loop->condition->results) + results_flops(loop->body->results);
  }
  if (const auto* cond = node.as<Cond>()) {
    return std::max(results_flops(cond->on_true->results), results_flops(cond->on_false->results));
  }
  if (const auto* remat = node.as<Remat>()) return results_flops(remat->body->results);
  if (const auto* map = node.as<ShardMap>()) {
    return static_cast<double>(map->mesh.size(map->axes)) * results_flops(map->body->results);
  }
  return attention_kernel_flops(node);
}

}  // namespace

double matmul_flops(const Function& function) { return results_flops(simplify(function).results); }

}  // namespace espalier
