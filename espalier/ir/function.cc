#include "espalier/ir/function.h"

#include <algorithm>
#include <unordered_set>

#include "espalier/ir/op.h"
#include "espalier/ir/parameter.h"

namespace espalier {

namespace {

// Nodes that `results` reach without passing through a tensor of `stop`, operands first.
std::vector<std::shared_ptr<const Node>> reachable_above(const Tensors& results,
                                                         const TensorMap& stop) {
  std::unordered_set<const Node*> seen;
  std::vector<std::shared_ptr<const Node>> out;
  const auto visit = [&](const Tensor& t) {
    if (t.empty() || t.node().constant || stop.contains(t)) return;
    if (seen.insert(&t.node()).second) out.push_back(t.node_ptr());
  };
  for (const Tensor& t : results) visit(t);
  for (size_t i = 0; i < out.size(); ++i) {
    const std::shared_ptr<const Node> node = out[i];  // `out` grows below
    for (const Tensor& operand : node->operands) visit(operand);
  }
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a->id < b->id; });
  return out;
}

}  // namespace

Tensors substitute(const Tensors& results, TensorMap& map) {
  for (const auto& node : reachable_above(results, map)) {
    Tensors operands;
    operands.reserve(node->operands.size());
    bool changed = false;
    for (const Tensor& operand : node->operands) {
      const auto found = map.find(operand);
      operands.push_back(found == map.end() ? operand : found->second);
      changed |= found != map.end() && found->second != operand;
    }
    if (!changed) continue;
    const Tensors rebuilt = make_node(node->op, std::move(operands));
    for (uint32_t i = 0; i < rebuilt.size(); ++i) map.try_emplace(Tensor(node, i), rebuilt[i]);
  }
  Tensors out;
  out.reserve(results.size());
  for (const Tensor& t : results) {
    const auto found = t.empty() ? map.end() : map.find(t);
    out.push_back(found == map.end() ? t : found->second);
  }
  return out;
}

Tensors inline_function(const Function& function, const Tensors& arguments) {
  if (arguments.size() != function.params.size()) {
    fail("inline", "needs " + std::to_string(function.params.size()) + " arguments, got " +
                       std::to_string(arguments.size()));
  }
  TensorMap map;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].type() != function.params[i].type()) {
      fail("inline", "argument " + std::to_string(i) + " needs " +
                         to_string(function.params[i].type()) + ", got " +
                         to_string(arguments[i].type()));
    }
    map.emplace(function.params[i], arguments[i]);
  }
  return substitute(function.results, map);
}

namespace {

using Inside = std::unordered_set<const Node*>;

// Captures what nodes outside of `inside` hand to those in it.
Closed close_over(const Tensors& params, const Tensors& results,
                  const std::vector<std::shared_ptr<const Node>>& nodes, const Inside& inside) {
  Tensors captured;
  TensorMap map;
  const auto capture = [&](const Tensor& t) {
    if (inside.contains(&t.node()) || t.node().constant || map.contains(t)) return;
    captured.push_back(t);
    map.emplace(t, parameter(t.type()));
  };
  for (const auto& node : nodes) {
    if (!inside.contains(node.get())) continue;
    for (const Tensor& operand : node->operands) capture(operand);
  }
  for (const Tensor& t : results) capture(t);

  auto function = std::make_shared<Function>();
  for (const Tensor& t : captured) function->params.push_back(map.at(t));
  function->params.insert(function->params.end(), params.begin(), params.end());
  function->results = substitute(results, map);
  return {std::move(function), std::move(captured)};
}

}  // namespace

Closed close(const Tensors& params, const Tensors& results) {
  Inside inside;
  for (const Tensor& p : params) inside.insert(&p.node());
  const auto nodes = reachable(results);
  for (const auto& node : nodes) {
    for (const Tensor& operand : node->operands) {
      if (inside.contains(&operand.node())) {
        inside.insert(node.get());
        break;
      }
    }
  }
  return close_over(params, results, nodes, inside);
}

Closed trace_closed(const std::vector<TensorType>& types,
                    const std::function<Tensors(const Tensors&)>& trace) {
  const Tensors params = parameters(types);
  return close(params, trace(params));
}

Closed trace_inside(const std::vector<TensorType>& types,
                    const std::function<Tensors(const Tensors&)>& trace) {
  // Ids grow with creation, so this one divides what was there from what is made now.
  const uint64_t start = parameter({DType::kBool, {}}).node().id;
  const Tensors params = parameters(types);
  const Tensors results = trace(params);
  const auto nodes = reachable(results);
  Inside inside;
  for (const Tensor& p : params) inside.insert(&p.node());
  for (const auto& node : nodes) {
    if (node->id > start && node->as<Parameter>() == nullptr) inside.insert(node.get());
  }
  return close_over(params, results, nodes, inside);
}

Function trace(const std::vector<TensorType>& types,
               const std::function<Tensors(const Tensors&)>& body) {
  Function out;
  out.params = parameters(types);
  out.results = body(out.params);
  verify(out);
  return out;
}

void verify(const Function& function) {
  std::unordered_set<const Node*> params;
  for (const Tensor& p : function.params) params.insert(&p.node());
  for (const Tensor& t : function.results) {
    if (t.empty()) throw Error("[verify] a result of the function is an empty Tensor");
  }
  for (const auto& node : reachable(function.results)) {
    const std::string name(node->op->name());
    if (node->as<Parameter>() != nullptr && !params.contains(node.get())) {
      throw Error("[verify] the function reaches a parameter " + to_string(node->types[0]) +
                  " of another function; pass it as an argument");
    }
    for (const Tensor& operand : node->operands) {
      if (operand.node().id >= node->id) {
        throw Error("[verify] an operand of " + name + " was made after it", Code::kInternal);
      }
    }
    if (node->op->infer(types_of(node->operands)) != node->types) {
      throw Error("[verify] the types of " + name + " are not what its rule infers",
                  Code::kInternal);
    }
  }
}

}  // namespace espalier
