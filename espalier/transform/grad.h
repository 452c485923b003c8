// Reverse-mode differentiation.
//
// Vocabulary: a cotangent is the derivative of the final scalar with respect to a value; a pullback
// takes the cotangents of outputs to those of inputs; a residual is a forward value that a pullback
// needs. Structured operations are rebuilt so that they hand out their residuals: a scan saves what
// its backward scan reads, and nothing else.
#pragma once

#include <functional>

#include "espalier/ir/function.h"

namespace espalier {

struct Linearized {
  // The outputs again, made of nodes that hand out residuals. Use these and not the originals, or
  // scans are computed twice.
  Tensors outputs;
  // One cotangent per output (empty: zero) to one per `wrt` (empty: zero). May be called again.
  std::function<Tensors(const Tensors& cotangents)> pullback;
};

// Linearizes outputs with respect to floating-point tensors that they reach (parameters or any
// others). The pullback throws Error where a cotangent reaches a while loop, which has no
// reverse-mode gradient.
Linearized linearize(const Tensors& outputs, const Tensors& wrt);

struct ValueAndGrad {
  Tensor value;
  Tensors aux;
  Tensors grads;  // one per `wrt`, zeros where the value does not depend on it
};
// Value and gradient of a floating-point scalar; `aux` are other tensors of the same computation,
// to be used in place of the originals.
ValueAndGrad value_and_grad(const Tensor& value, const Tensors& wrt, const Tensors& aux = {});

}  // namespace espalier
