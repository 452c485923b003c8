#include "espalier/transform/simplify.h"

#include <unordered_set>

#include "espalier/ir/op.h"
#include "espalier/ops/annotate.h"
#include "espalier/ops/control.h"
#include "espalier/ops/custom_call.h"
#include "espalier/ops/shard_map.h"

namespace espalier {
namespace {

using FunctionPass = std::function<Function(const Function&)>;

FunctionPtr apply_pass(const FunctionPass& pass, const FunctionPtr& body) {
  return std::make_shared<const Function>(pass(*body));
}

// The op with a pass applied to each of its bodies; the op itself where it has none.
std::shared_ptr<const Op> with_bodies(const Node& node, const FunctionPass& pass) {
  const auto model = [](auto s) -> std::shared_ptr<const Op> {
    return std::make_shared<OpModel<decltype(s)>>(std::move(s));
  };
  if (const auto* op = node.as<Scan>()) {
    Scan out = *op;
    out.body = apply_pass(pass, op->body);
    return model(std::move(out));
  }
  if (const auto* op = node.as<While>()) {
    While out = *op;
    out.condition = apply_pass(pass, op->condition);
    out.body = apply_pass(pass, op->body);
    return model(std::move(out));
  }
  if (const auto* op = node.as<Cond>()) {
    return model(Cond{apply_pass(pass, op->on_true), apply_pass(pass, op->on_false)});
  }
  if (const auto* op = node.as<Remat>()) {
    Remat out = *op;
    out.body = apply_pass(pass, op->body);
    return model(std::move(out));
  }
  if (const auto* op = node.as<ShardMap>()) {
    ShardMap out = *op;
    out.body = apply_pass(pass, op->body);
    return model(std::move(out));
  }
  return node.op;
}

// Rebuilds a function node by node. `make` gets each node with its operands already rebuilt and
// returns the tensors that stand for its results.
Function rebuild(const Function& function,
                 const std::function<Tensors(const std::shared_ptr<const Node>&, Tensors)>& make) {
  TensorMap map;
  for (const Tensor& p : function.params) map.emplace(p, p);
  const auto now = [&](const Tensor& t) {
    const auto found = map.find(t);
    return found == map.end() ? t : found->second;
  };
  for (const auto& node : reachable(function.results)) {
    if (map.contains(Tensor(node, 0))) continue;
    Tensors operands;
    for (const Tensor& t : node->operands) operands.push_back(now(t));
    const Tensors made = make(node, std::move(operands));
    for (uint32_t i = 0; i < made.size(); ++i) map[Tensor(node, i)] = made[i];
  }
  Function out;
  out.params = function.params;
  for (const Tensor& t : function.results) out.results.push_back(now(t));
  return out;
}

// The node on these operands, kept where nothing changed.
Tensors remake(const std::shared_ptr<const Node>& node, std::shared_ptr<const Op> op,
               Tensors operands) {
  if (op == node->op && operands == node->operands) {
    Tensors out;
    for (uint32_t i = 0; i < node->types.size(); ++i) out.emplace_back(node, i);
    return out;
  }
  return make_node(std::move(op), std::move(operands));
}

using LiveSet = std::unordered_set<Tensor, TensorHash>;

// A structured node reduced to what is read of it.
struct Pruned {
  std::shared_ptr<const Op> op;
  std::vector<size_t> operands;  // those kept
  std::vector<int> results;      // per original result: its new index, -1 where it is gone
};

std::unordered_set<const Node*> reached(const Tensors& results) {
  std::unordered_set<const Node*> out;
  for (const auto& node : reachable(results)) out.insert(node.get());
  return out;
}

// New index of a kept output before output i that stacks the same value; -1 where there is none.
int earlier_output(const Scan& scan, const std::vector<int>& kept, size_t i) {
  for (size_t j = scan.carries; j < i; ++j) {
    if (kept[j] >= 0 && scan.body->results[j] == scan.body->results[i]) return kept[j];
  }
  return -1;
}

Pruned prune_scan(const Scan& scan, const std::vector<bool>& live) {
  const Function& body = *scan.body;
  std::vector<bool> needed = live;
  Function kept;
  std::unordered_set<const Node*> used;
  while (true) {  // a carry is needed where a needed result reads it
    kept.params = body.params;
    kept.results.clear();
    for (size_t i = 0; i < needed.size(); ++i) {
      if (needed[i]) kept.results.push_back(body.results[i]);
    }
    kept = remove_dead_code(kept);
    used = reached(kept.results);
    bool grew = false;
    for (size_t i = 0; i < scan.carries; ++i) {
      if (!needed[i] && used.contains(&body.params[scan.consts + i].node())) {
        grew = needed[i] = true;
      }
    }
    if (!grew) break;
  }
  Pruned out;
  Scan smaller{scan.length, 0, 0, scan.reversed, nullptr};
  auto function = std::make_shared<Function>();
  size_t at = 0;  // in kept.results
  for (size_t i = 0; i < body.params.size(); ++i) {
    const bool carry = i >= scan.consts && i < scan.consts + scan.carries;
    if (carry ? !needed[i - scan.consts] : !used.contains(&body.params[i].node())) continue;
    out.operands.push_back(i);
    function->params.push_back(body.params[i]);
    smaller.consts += i < scan.consts;
    smaller.carries += carry;
  }
  int next = 0;
  for (size_t i = 0; i < needed.size(); ++i) {
    if (!needed[i]) {
      out.results.push_back(-1);
      continue;
    }
    // One value stacked twice, as the residual of two operations, is stacked once.
    const int same = i < scan.carries ? -1 : earlier_output(scan, out.results, i);
    if (same < 0) function->results.push_back(kept.results[at]);
    out.results.push_back(same < 0 ? next++ : same);
    ++at;
  }
  smaller.body = function;
  out.op = std::make_shared<OpModel<Scan>>(std::move(smaller));
  return out;
}

Pruned prune_shard_map(const ShardMap& map, const std::vector<bool>& live) {
  Pruned out;
  ShardMap smaller = map;
  smaller.in_specs.clear();
  smaller.out_specs.clear();
  Function kept;
  kept.params = map.body->params;
  int next = 0;
  for (size_t i = 0; i < live.size(); ++i) {
    out.results.push_back(live[i] ? next++ : -1);
    if (!live[i]) continue;
    kept.results.push_back(map.body->results[i]);
    smaller.out_specs.push_back(map.out_specs[i]);
  }
  kept = remove_dead_code(kept);
  const auto used = reached(kept.results);
  auto function = std::make_shared<Function>();
  function->results = kept.results;
  for (size_t i = 0; i < kept.params.size(); ++i) {
    if (!used.contains(&kept.params[i].node())) continue;
    out.operands.push_back(i);
    function->params.push_back(kept.params[i]);
    smaller.in_specs.push_back(map.in_specs[i]);
  }
  smaller.body = function;
  out.op = std::make_shared<OpModel<ShardMap>>(std::move(smaller));
  return out;
}

}  // namespace

Function erase_annotations(const Function& function) {
  return rebuild(function, [](const std::shared_ptr<const Node>& node, Tensors operands) {
    if (const auto* op = node->as<CustomVjp>()) {
      const auto first = operands.begin() + static_cast<int64_t>(op->inputs);
      return Tensors(first, first + static_cast<int64_t>(op->outputs));
    }
    if (node->as<StopGradient>() != nullptr || node->as<CheckpointName>() != nullptr) {
      return operands;
    }
    return remake(node, with_bodies(*node, erase_annotations), std::move(operands));
  });
}

Function remove_dead_code(const Function& function) {
  // Users before operands: what is live when a node's turn comes is all that will be read of it.
  LiveSet live(function.results.begin(), function.results.end());
  std::unordered_map<const Node*, Pruned> pruned;
  std::unordered_set<const Node*> read;
  const auto nodes = reachable(function.results);
  for (auto it = nodes.rbegin(); it != nodes.rend(); ++it) {
    const Node& node = **it;
    std::vector<bool> used;
    bool any = false;
    for (uint32_t i = 0; i < node.types.size(); ++i) {
      used.push_back(live.contains(Tensor(*it, i)));
      any |= used.back();
    }
    if (!any) continue;
    read.insert(&node);
    const auto* scan = node.as<Scan>();
    const auto* map = node.as<ShardMap>();
    if (scan != nullptr || map != nullptr) {
      const auto& result = pruned
                               .emplace(&node, scan != nullptr ? prune_scan(*scan, used)
                                                               : prune_shard_map(*map, used))
                               .first->second;
      for (size_t i : result.operands) live.insert(node.operands[i]);
    } else {
      for (const Tensor& t : node.operands) live.insert(t);
    }
  }
  return rebuild(function, [&](const std::shared_ptr<const Node>& node, Tensors operands) {
    if (!read.contains(node.get())) return Tensors();  // only pruned operands led here
    const auto found = pruned.find(node.get());
    if (found == pruned.end()) {
      return remake(node, with_bodies(*node, remove_dead_code), std::move(operands));
    }
    Tensors kept;
    for (size_t i : found->second.operands) kept.push_back(operands[i]);
    const Tensors made = make_node(found->second.op, kept);
    Tensors out;
    for (const int i : found->second.results) {
      out.push_back(i < 0 ? Tensor() : made[static_cast<size_t>(i)]);
    }
    return out;
  });
}

Function merge_equal_nodes(const Function& function) {
  std::unordered_map<size_t, std::vector<std::shared_ptr<const Node>>> seen;
  return rebuild(function, [&](const std::shared_ptr<const Node>& node, Tensors operands) {
    auto op = with_bodies(*node, merge_equal_nodes);
    const auto* call = node->as<CustomCall>();
    if (call != nullptr && call->has_side_effect) {
      return remake(node, std::move(op), std::move(operands));
    }
    size_t key = std::hash<std::string_view>()(op->name());
    for (const Tensor& t : operands) key = key * 1000003 + TensorHash()(t);
    auto& bucket = seen[key];
    for (const auto& other : bucket) {
      if (other->operands == operands && other->op->equals(*op)) {
        return remake(other, other->op, other->operands);
      }
    }
    const Tensors made = remake(node, std::move(op), std::move(operands));
    bucket.push_back(made[0].node_ptr());
    return made;
  });
}

Function simplify(const Function& function) {
  // Merging shows which stacked values are equal; dropping those makes more nodes equal.
  const Function merged = merge_equal_nodes(erase_annotations(function));
  return merge_equal_nodes(remove_dead_code(merged));
}

size_t count_nodes(const Function& function) {
  size_t count = 0;
  for (const auto& node : reachable(function.results)) {
    ++count;
    with_bodies(*node, [&](const Function& body) {
      count += count_nodes(body);
      return body;
    });
  }
  return count;
}

}  // namespace espalier
