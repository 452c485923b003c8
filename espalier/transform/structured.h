// Linearization of operations with bodies; internal to grad.
#pragma once

#include <functional>
#include <vector>

#include "espalier/ir/op.h"
#include "espalier/ops/control.h"

namespace espalier {

// A node rebuilt on new operands, with its pullback.
struct LinearNode {
  Tensors outputs;
  std::vector<bool> active;  // which outputs depend on active operands
  std::function<Tensors(const Tensors& cotangents)> pullback;  // one cotangent per operand
};

// Null where the node is no structured operation. `active` says which operands matter.
bool linearize_structured(const Node& node, const Tensors& operands,
                          const std::vector<bool>& active, LinearNode& out);

// The forward pass keeps what the policy says; all else is computed again in the backward pass.
void linearize_remat(const Remat& op, const Tensors& operands, const std::vector<bool>& active,
                     LinearNode& out);

// Which results depend, through floating-point values, on the active parameters.
std::vector<bool> active_results(const Function& function, const std::vector<bool>& params);
// Which results of a node carry a derivative when some operand does.
bool result_active(const Node& node, size_t index);

}  // namespace espalier
