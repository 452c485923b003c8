#include "espalier/train/plan_graph.h"

#include <algorithm>

#include "espalier/ir/parameter.h"
#include "espalier/ops/op_list.h"

namespace espalier::planning {
namespace {

bool is_source(const Node& n) {
  return n.as<Splat>() != nullptr || n.as<Constant>() != nullptr || n.as<Iota>() != nullptr;
}

OpKind kind_of(const Node& n) {
  if (is_source(n)) return OpKind::kSource;
  if (n.as<Reshape>() || n.as<Shard>() || n.as<OptimizationBarrier>() || n.as<StopGradient>() ||
      n.as<CheckpointName>() || n.as<BitcastConvert>()) {
    return OpKind::kView;
  }
  if (n.as<Unary>() || n.as<Binary>() || n.as<Compare>() || n.as<Select>() || n.as<Convert>() ||
      n.as<BroadcastInDim>() || n.as<Transpose>() || n.as<Slice>() || n.as<Pad>() ||
      n.as<Reverse>() || n.as<DynamicSlice>() || n.as<Threefry>()) {
    return OpKind::kElementwise;
  }
  if (n.as<DynamicUpdateSlice>()) return OpKind::kInPlace;
  if (n.as<DotGeneral>()) return OpKind::kDot;
  if (n.as<Reduce>()) return OpKind::kReduce;
  if (n.as<Scan>() || n.as<While>()) return OpKind::kLoop;

  return OpKind::kOther;
}

// Dims of a reshape that hold the same elements: groups of equal product, whose first dims above 1
// are split together.
void reshape_dims(const Dims& from, const Dims& to, const std::function<void(int, int)>& link) {
  size_t i = 0, j = 0;
  while (i < from.size() && j < to.size()) {
    size_t first_i = i, first_j = j;
    int64_t left = from[i++], right = to[j++];
    while (left != right) {
      if (left < right ? i == from.size() : j == to.size()) return;  // an empty array
      left < right ? left *= from[i++] : right *= to[j++];
    }
    while (first_i + 1 < i && from[first_i] == 1) ++first_i;
    while (first_j + 1 < j && to[first_j] == 1) ++first_j;
    link(static_cast<int>(first_i), static_cast<int>(first_j));
  }
}

// Names of a function's tensors; the bodies inside have their own.
using Numbers = std::unordered_map<Tensor, int, TensorHash>;

class Builder {
 public:
  explicit Builder(Graph& graph) : graph_(graph) {}

  Body body(const Function& function) {
    Body out;
    Numbers numbers;
    for (const Tensor& t : function.params) out.params.push_back(number(numbers, t));
    ops(function, numbers, out.ops);
    for (const Tensor& t : function.results) out.results.push_back(number(numbers, t));
    return out;
  }

 private:
  int number(Numbers& numbers, const Tensor& t) {
    const auto [at, is_new] = numbers.try_emplace(t, static_cast<int>(graph_.types.size()));
    if (is_new) {
      graph_.types.push_back(t.type());
      graph_.constant.push_back(t.node().constant);
    }
    return at->second;
  }

  void ops(const Function& function, Numbers& numbers, std::vector<Op>& out) {
    for (const auto& node : reachable(function.results)) {
      if (node->as<Parameter>() != nullptr) continue;
      if (const auto* remat = node->as<Remat>()) {  // stands for its body
        Numbers inner;
        for (size_t i = 0; i < node->operands.size(); ++i) {
          inner.emplace(remat->body->params[i], number(numbers, node->operands[i]));
        }
        ops(*remat->body, inner, out);
        for (uint32_t i = 0; i < node->types.size(); ++i) {
          numbers.emplace(Tensor(node, i), number(inner, remat->body->results[i]));
        }
        continue;
      }
      out.push_back(op(*node, numbers));
    }
  }

  Op op(const Node& node, Numbers& numbers) {
    Op out;
    out.node = &node;
    out.kind = kind_of(node);
    for (const Tensor& t : node.operands) out.operands.push_back(number(numbers, t));
    for (uint32_t i = 0; i < node.types.size(); ++i) {
      out.results.push_back(number(numbers, Tensor(node.shared_from_this(), i)));
    }
    if (!bodies(node, out)) factors(node, out);
    return out;
  }

  const Dims& dims(int value) const { return graph_.types[static_cast<size_t>(value)].dims; }

  static void add(Op& op, std::vector<Place> operands, std::vector<Place> results,
                  bool passes = false) {
    op.factors.push_back({std::move(operands), std::move(results), passes});
  }
  void link(Op& op, int from, int from_dim, int to, int to_dim) {
    add(op, {{from, from_dim}}, {{to, to_dim}}, true);
  }
  // Whole values, the dims behind the first `skip` of each.
  void link_values(Op& op, int from, int to, int skip_from = 0, int skip_to = 0) {
    const int rank = static_cast<int>(dims(from).size()) - skip_from;
    for (int d = 0; d < rank; ++d) link(op, from, d + skip_from, to, d + skip_to);
  }

  // Ops with bodies; false where the node is none.
  bool bodies(const Node& node, Op& out) {
    if (const auto* scan = node.as<Scan>()) {
      out.length = scan->length;
      out.consts = scan->consts;
      out.carries = scan->carries;
      out.bodies.push_back(body(*scan->body));
      const Body& b = out.bodies.back();
      const size_t scanned = scan->consts + scan->carries;
      for (size_t i = 0; i < out.operands.size(); ++i) {
        link_values(out, out.operands[i], b.params[i], i < scanned ? 0 : 1);
      }
      for (size_t i = 0; i < out.results.size(); ++i) {
        link_values(out, b.results[i], out.results[i], 0, i < scan->carries ? 0 : 1);
        if (i < scan->carries) link_values(out, b.results[i], b.params[scan->consts + i]);
      }
      return true;
    }
    if (const auto* loop = node.as<While>()) {
      // Planned as its body alone: the condition is a few scalars.
      out.consts = loop->body_consts;
      out.operands.erase(out.operands.begin(),
                         out.operands.begin() + static_cast<int64_t>(loop->condition_consts));
      out.carries = out.results.size();
      out.bodies.push_back(body(*loop->body));
      const Body& b = out.bodies.back();
      for (size_t i = 0; i < out.operands.size(); ++i) {
        link_values(out, out.operands[i], b.params[i]);
      }
      for (size_t i = 0; i < out.results.size(); ++i) {
        link_values(out, b.results[i], out.results[i]);
        link_values(out, b.results[i], b.params[out.consts + i]);
      }
      return true;
    }
    if (const auto* cond = node.as<Cond>()) {
      for (const FunctionPtr& branch : {cond->on_true, cond->on_false}) {
        out.bodies.push_back(body(*branch));
        const Body& b = out.bodies.back();
        for (size_t i = 0; i < b.params.size(); ++i) {
          link_values(out, out.operands[i + 1], b.params[i]);
        }
        for (size_t i = 0; i < b.results.size(); ++i) {
          link_values(out, b.results[i], out.results[i]);
        }
      }
    } else if (const auto* map = node.as<ShardMap>()) {
      out.bodies.push_back(body(*map->body));  // its values are one device's pieces
    } else {
      return false;
    }
    return true;
  }

  void factors(const Node& node, Op& out) {
    if (out.kind == OpKind::kSource || out.results.empty()) return;
    const int to = out.results[0];
    const Dims& shape = dims(to);
    const int rank = static_cast<int>(shape.size());
    const auto from = [&](size_t i) { return out.operands[i]; };
    if (const auto* dot = node.as<DotGeneral>()) {
      dot_factors(*dot, out);
    } else if (const auto* reduce = node.as<Reduce>()) {
      int at = 0;
      for (int d = 0; d < static_cast<int>(dims(from(0)).size()); ++d) {
        const bool gone =
            std::find(reduce->dims.begin(), reduce->dims.end(), d) != reduce->dims.end();
        gone ? add(out, {{from(0), d}}, {}) : link(out, from(0), d, to, at++);
      }
    } else if (const auto* view = node.as<Reshape>()) {
      reshape_dims(dims(from(0)), view->dims, [&](int i, int j) { link(out, from(0), i, to, j); });
    } else if (const auto* broadcast = node.as<BroadcastInDim>()) {
      for (int d = 0; d < static_cast<int>(broadcast->map.size()); ++d) {
        const int at = static_cast<int>(broadcast->map[static_cast<size_t>(d)]);
        if (dims(from(0))[static_cast<size_t>(d)] == shape[static_cast<size_t>(at)]) {
          // Larger arrays say how they are split, and what is spread over them follows.
          add(out, {{from(0), d}}, {{to, at}}, false);
        }
      }
    } else if (const auto* transpose = node.as<Transpose>()) {
      for (int d = 0; d < rank; ++d) {
        link(out, from(0), static_cast<int>(transpose->permutation[static_cast<size_t>(d)]), to, d);
      }
    } else if (node.as<Take>()) {
      const int ids = static_cast<int>(dims(from(1)).size());
      for (int d = 0; d < ids; ++d) link(out, from(1), d, to, d);
      link_values(out, from(0), to, 1, ids);
      add(out, {{from(0), 0}}, {});
    } else if (node.as<AddRows>()) {
      const int ids = static_cast<int>(dims(from(1)).size());
      for (int d = 0; d < ids; ++d) add(out, {{from(1), d}, {from(2), d}}, {});
      for (int d = 1; d < rank; ++d) {
        add(out, {{from(0), d}, {from(2), d + ids - 1}}, {{to, d}});
      }
      link(out, from(0), 0, to, 0);
    } else if (node.as<OptimizationBarrier>()) {
      for (size_t i = 0; i < out.operands.size(); ++i) link_values(out, from(i), out.results[i]);
    } else {
      // Each dim on its own, where all that have this rank have this size there.
      for (int d = 0; d < rank; ++d) {
        std::vector<Place> places;
        for (const int operand : out.operands) {
          const Dims& its = dims(operand);
          if (static_cast<int>(its.size()) == rank &&
              its[static_cast<size_t>(d)] == shape[static_cast<size_t>(d)]) {
            places.push_back({operand, d});
          }
        }
        std::vector<Place> results;
        for (const int result : out.results) {
          if (static_cast<int>(dims(result).size()) == rank) results.push_back({result, d});
        }
        if (!places.empty()) add(out, std::move(places), std::move(results), true);
      }
    }
  }

  void dot_factors(const DotGeneral& dot, Op& out) {
    const int left = out.operands[0], right = out.operands[1], to = out.results[0];
    const auto has = [](const std::vector<int64_t>& dims, int d) {
      return std::find(dims.begin(), dims.end(), d) != dims.end();
    };
    int at = 0;
    for (size_t i = 0; i < dot.left_batch.size(); ++i) {
      add(out,
          {{left, static_cast<int>(dot.left_batch[i])},
           {right, static_cast<int>(dot.right_batch[i])}},
          {{to, at++}});
    }
    for (int d = 0; d < static_cast<int>(dims(left).size()); ++d) {
      if (!has(dot.left_batch, d) && !has(dot.left_contract, d))
        add(out, {{left, d}}, {{to, at++}});
    }
    for (int d = 0; d < static_cast<int>(dims(right).size()); ++d) {
      if (!has(dot.right_batch, d) && !has(dot.right_contract, d)) {
        add(out, {{right, d}}, {{to, at++}});
      }
    }
    for (size_t i = 0; i < dot.left_contract.size(); ++i) {
      add(out,
          {{left, static_cast<int>(dot.left_contract[i])},
           {right, static_cast<int>(dot.right_contract[i])}},
          {});
    }
  }

  Graph& graph_;
};

}  // namespace

Graph make_graph(Function function) {
  Graph out;
  out.function = std::move(function);
  out.main = Builder(out).body(out.function);
  return out;
}

}  // namespace espalier::planning
