// Functions: substituting tensors, closing over captured ones, inlining, and verifying.
#pragma once

#include <functional>
#include <unordered_map>

#include "espalier/ir/tensor.h"

namespace espalier {

using TensorMap = std::unordered_map<Tensor, Tensor, TensorHash>;

// The results rebuilt with every key of `map` replaced by its value. Nodes that reach no key are
// kept as they are. `map` gains an entry for each rebuilt tensor.
Tensors substitute(const Tensors& results, TensorMap& map);

// The function's results for these arguments (types must equal the parameters').
Tensors inline_function(const Function& function, const Tensors& arguments);

// A function from parameters and results whose graph may reach tensors of an enclosing function.
// Those become further parameters, `captured` in the same order, in front of `params`. What depends
// on no parameter is captured as a value, computed outside once; constants stay inside.
struct Closed {
  FunctionPtr function;
  Tensors captured;
};
Closed close(const Tensors& params, const Tensors& results);

// Calls `trace` with fresh parameters of these types and closes the result.
Closed trace_closed(const std::vector<TensorType>& types,
                    const std::function<Tensors(const Tensors&)>& trace);
// As trace_closed, but all that `trace` makes stays inside, also what depends on no parameter: for
// bodies that must not run before their place (a branch) or must run again (rematerialization).
Closed trace_inside(const std::vector<TensorType>& types,
                    const std::function<Tensors(const Tensors&)>& trace);
// As trace_closed, for a whole program: capturing anything is an Error.
Function trace(const std::vector<TensorType>& types,
               const std::function<Tensors(const Tensors&)>& body);

// Checks that the function is closed, that operands come before their users, and that inferring
// each node's types again gives the recorded ones. Throws Error naming the node.
void verify(const Function& function);

}  // namespace espalier
