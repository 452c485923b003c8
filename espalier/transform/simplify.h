// Simplification before printing: custom gradient rules, gradient stops and names give way to
// their values; scans and manual regions lose carries, outputs and operands that nothing reads;
// equal nodes become one.
#pragma once

#include "espalier/ir/function.h"

namespace espalier {

// The same parameters and results with less between. Bodies are simplified too.
Function simplify(const Function& function);

// The single passes.
Function erase_annotations(const Function& function);
Function remove_dead_code(const Function& function);
Function merge_equal_nodes(const Function& function);

// Nodes of the function and of the bodies inside it.
size_t count_nodes(const Function& function);

}  // namespace espalier
