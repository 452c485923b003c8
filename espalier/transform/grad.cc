#include "espalier/transform/grad.h"

#include <unordered_set>

#include "espalier/ir/op.h"
#include "espalier/ops/annotate.h"
#include "espalier/ops/elementwise.h"
#include "espalier/ops/source.h"
#include "espalier/transform/structured.h"

namespace espalier {
namespace {

struct Step {
  Tensors in, out;
  std::function<Tensors(const Tensors&)> pullback;
};

}  // namespace

bool result_active(const Node& node, size_t index) {
  return is_floating(node.types[index].dtype) && node.as<StopGradient>() == nullptr;
}

std::vector<bool> active_results(const Function& function, const std::vector<bool>& params) {
  std::unordered_set<Tensor, TensorHash> active;
  for (size_t i = 0; i < params.size(); ++i) {
    if (params[i]) active.insert(function.params[i]);
  }
  for (const auto& node : reachable(function.results)) {
    bool any = false;
    for (const Tensor& t : node->operands) any |= active.contains(t);
    for (uint32_t i = 0; any && i < node->types.size(); ++i) {
      if (result_active(*node, i)) active.insert(Tensor(node, i));
    }
  }
  std::vector<bool> out;
  for (const Tensor& t : function.results) out.push_back(active.contains(t));
  return out;
}

Linearized linearize(const Tensors& outputs, const Tensors& wrt) {
  std::unordered_set<Tensor, TensorHash> active;  // among the rebuilt tensors
  TensorMap map;                                  // original to rebuilt, where they differ
  for (const Tensor& t : wrt) {
    if (!is_floating(t.dtype())) {
      fail("grad", "needs floating-point tensors to differentiate by, got " + to_string(t.type()));
    }
    active.insert(t);
  }
  const auto now = [&](const Tensor& t) {
    const auto found = t.empty() ? map.end() : map.find(t);
    return found == map.end() ? t : found->second;
  };

  std::vector<Step> steps;
  for (const auto& node : reachable(outputs)) {
    Tensors operands;
    std::vector<bool> operand_active;
    bool any = false, changed = false;
    for (const Tensor& t : node->operands) {
      operands.push_back(now(t));
      operand_active.push_back(active.contains(operands.back()));
      any |= operand_active.back();
      changed |= operands.back() != t;
    }
    // A leaf stays what it is, even where it depends on other leaves.
    bool leaf = true;
    for (uint32_t i = 0; i < node->types.size(); ++i) leaf &= active.contains(Tensor(node, i));
    if (leaf || (!any && !changed)) continue;

    LinearNode linear;
    if (!any) {
      linear.outputs = make_node(node->op, operands);
    } else if (!linearize_structured(*node, operands, operand_active, linear)) {
      for (uint32_t i = 0; i < node->types.size(); ++i) {
        linear.outputs.push_back(Tensor(node, i));
        linear.active.push_back(result_active(*node, i));
      }
      if (changed) linear.outputs = make_node(node->op, operands);
      linear.pullback = [op = node->op, operands, out = linear.outputs](const Tensors& ct) {
        return op->vjp({operands, out, ct});
      };
    }
    for (uint32_t i = 0; i < linear.outputs.size() && i < node->types.size(); ++i) {
      const Tensor original(node, i);
      if (active.contains(original)) continue;
      if (linear.outputs[i] != original) map[original] = linear.outputs[i];
      if (any && linear.active[i]) active.insert(linear.outputs[i]);
    }
    if (any) steps.push_back({operands, linear.outputs, std::move(linear.pullback)});
  }

  Linearized result;
  for (const Tensor& t : outputs) result.outputs.push_back(now(t));
  result.pullback = [steps = std::move(steps), active = std::move(active), wrt,
                     outputs = result.outputs](const Tensors& cotangents) {
    std::unordered_map<Tensor, Tensor, TensorHash> total;
    const auto accumulate = [&](const Tensor& t, const Tensor& ct) {
      if (ct.empty() || !active.contains(t)) return;
      if (ct.type() != t.type()) {
        fail("grad", "a gradient rule of " + std::string(t.node().op->name()) +
                         "'s user gave a cotangent " + to_string(ct.type()) + " for a value " +
                         to_string(t.type()));
      }
      Tensor& sum = total[t];
      sum = sum.empty() ? ct : add(sum, ct);
    };
    for (size_t i = 0; i < outputs.size(); ++i) accumulate(outputs[i], cotangents.at(i));
    const std::unordered_set<Tensor, TensorHash> leaves(wrt.begin(), wrt.end());
    for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
      Tensors ct;
      bool any = false;
      for (const Tensor& t : step->out) {
        const auto found = leaves.contains(t) ? total.end() : total.find(t);
        ct.push_back(found == total.end() ? Tensor() : found->second);
        any |= !ct.back().empty();
      }
      if (!any) continue;
      const Tensors grads = step->pullback(ct);
      for (size_t i = 0; i < step->in.size(); ++i) accumulate(step->in[i], grads.at(i));
    }
    Tensors out;
    for (const Tensor& t : wrt) {
      const auto found = total.find(t);
      out.push_back(found == total.end() ? Tensor() : found->second);
    }
    return out;
  };
  return result;
}

ValueAndGrad value_and_grad(const Tensor& value, const Tensors& wrt, const Tensors& aux) {
  if (value.rank() != 0 || !is_floating(value.dtype())) {
    fail("value_and_grad", "needs a floating-point scalar, got " + to_string(value.type()));
  }
  Tensors outputs = {value};
  outputs.insert(outputs.end(), aux.begin(), aux.end());
  Linearized linear = linearize(outputs, wrt);
  Tensors cotangents(outputs.size());
  cotangents[0] = ones_like(value);
  ValueAndGrad out{linear.outputs[0],
                   {linear.outputs.begin() + 1, linear.outputs.end()},
                   linear.pullback(cotangents)};
  for (size_t i = 0; i < wrt.size(); ++i) {
    if (out.grads[i].empty()) out.grads[i] = zeros_like(wrt[i]);
  }
  return out;
}

}  // namespace espalier
