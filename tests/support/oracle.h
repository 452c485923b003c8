// A naive interpreter of functions on the host, to hold espalier's rules against. It shares nothing
// with the rules but the graph: values are lists of numbers, operations are loops over indices.
#pragma once

#include <vector>

#include "espalier/base/host_array.h"
#include "espalier/ir/tensor.h"

namespace espalier::test {

// The function's results for these arguments. float64 and all integers are exact; float32 and
// bfloat16 are rounded after each operation, whose sums are taken in double. A manual region runs
// on all devices of its mesh in step; a result that should be equal on several devices and is not
// throws Error. Custom calls throw Error.
std::vector<HostArray> evaluate(const Function& function, const std::vector<HostArray>& arguments);

}  // namespace espalier::test
