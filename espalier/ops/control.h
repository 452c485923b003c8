// Operations with bodies: scan, while, cond, remat. Their bodies are closed functions; what a body
// takes from outside becomes an operand. Their gradients belong to espalier/transform.
#pragma once

#include "espalier/ir/function.h"
#include "espalier/ops/rules.h"

namespace espalier {

// Operands: `consts` values that every step sees, `carries` initial carries, then the scanned
// arrays (length, ...). The body maps (consts, carries, one element of each scanned array) to (new
// carries, one element of each output). Results: last carries, then stacked outputs (length, ...).
// Reversed, it runs from the last element to the first; outputs stay at their element's place.
struct Scan {
  int64_t length = 0;
  size_t consts = 0, carries = 0;
  bool reversed = false;
  FunctionPtr body;
  ESPALIER_OP_RULES(Scan, "scan");
};

// Operands: `condition_consts`, `body_consts`, then the state. Runs body while condition (a bool
// scalar) holds; results: the last state. It has no gradient in reverse mode.
struct While {
  size_t condition_consts = 0, body_consts = 0;
  FunctionPtr condition, body;
  ESPALIER_OP_RULES(While, "while");
};

// (bool scalar, operands): the results of one of two functions of the same types.
struct Cond {
  FunctionPtr on_true, on_false;
  ESPALIER_OP_RULES(Cond, "cond");
};

// The body's results; under differentiation the body is computed again in the backward pass
// instead of keeping what it computed.
struct Remat {
  FunctionPtr body;
  ESPALIER_OP_RULES(Remat, "remat");
};

struct ScanResult {
  Tensors carry, outputs;
};
using ScanBody = std::function<ScanResult(const Tensors& carry, const Tensors& elements)>;
// `length` is needed only where there are no scanned arrays.
ScanResult scan(const ScanBody& body, const Tensors& carry, const Tensors& scanned,
                int64_t length = -1, bool reversed = false);

Tensors while_loop(const std::function<Tensor(const Tensors& state)>& condition,
                   const std::function<Tensors(const Tensors& state)>& body, const Tensors& state);

Tensors cond(const Tensor& predicate, const std::function<Tensors()>& on_true,
             const std::function<Tensors()>& on_false);

Tensors remat(const std::function<Tensors(const Tensors&)>& body, const Tensors& operands);

}  // namespace espalier
