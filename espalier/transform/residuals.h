// Which forward values of a body its backward pass reads; internal to grad.
#pragma once

#include <functional>
#include <vector>

#include "espalier/transform/grad.h"

namespace espalier {

// Which values a body's forward pass may keep for its backward pass.
struct Keeping {
  // Whether a value computed in the forward pass is kept where the backward pass reads it; what is
  // not is computed again from parameters and kept values.
  std::function<bool(const Tensor&)> keeps;
  // Whether naming a value keeps it under every form: as the operand of the name too, and as the
  // output of a custom_vjp that has it as operand.
  bool by_policy = false;
};
// Everything but what costs little to make again: views, wider numbers, and what is made by moving
// or converting one of the parameters that the backward pass has at no cost.
Keeping keep_all(const Function& body, const std::vector<bool>& given);

// A body linearized in its active parameters, and the forward values that its pullback reads.
struct Split {
  Linearized linear;
  std::vector<size_t> wrt;    // indices of the active parameters
  std::vector<bool> results;  // which results are active
  Tensors saved;              // residuals: neither parameters nor constants
  std::vector<bool> params;   // which parameters the pullback reads
  // Other tensors that the pullback reads, and the residual that each is equal to.
  std::vector<std::pair<Tensor, size_t>> aliases;
};
Split split(const Function& body, const std::vector<bool>& active, const Keeping& keeping);

// Elements [first, first + count).
Tensors part(const Tensors& all, size_t first, size_t count);
Tensors chosen(const Tensors& all, const std::vector<size_t>& which);
// Indices of the true ones.
std::vector<size_t> indices_of(const std::vector<bool>& flags);

}  // namespace espalier
