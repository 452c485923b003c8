// Operations with bodies: scan, while, cond, remat. Their bodies are closed functions; what a body
// takes from outside becomes an operand. Their gradients belong to espalier/transform.
#pragma once

#include <compare>
#include <string>
#include <vector>

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

// Which values of a rematerialized body are kept for its backward pass.
struct RematPolicy {
  enum class Saves {
    kNothing,
    kDots,                 // results of matrix products
    kDotsWithNoBatchDims,  // of those without batch dims: a layer's products with its weights
    kNames,                // what checkpoint_name() gave one of `names`
  };
  Saves saves = Saves::kNothing;
  std::vector<std::string> names{};  // for kNames
  bool offload = false;              // kept values wait in the host's memory
  auto operator<=>(const RematPolicy&) const = default;
};

// The body's results; under differentiation the backward pass computes again, from the operands and
// what `policy` keeps, what it reads of the body. What the policy names inside the bodies of this
// body's own operations (a scan, a manual region) is not kept.
struct Remat {
  FunctionPtr body;
  RematPolicy policy{};
  // A barrier keeps the compiler from merging the second computation with the first. In a scan's
  // body there is no need, since the two are in different loops.
  bool guarded = true;
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

// Throws Error where the policy names values that the body has not.
Tensors remat(const std::function<Tensors(const Tensors&)>& body, const Tensors& operands,
              const RematPolicy& policy = {}, bool guarded = true);

}  // namespace espalier
