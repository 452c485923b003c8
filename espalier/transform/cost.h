// What a function costs, counted in its graph.
#pragma once

#include "espalier/ir/function.h"

namespace espalier {

// Floating-point operations of the matrix products that the results need, two for each product of
// elements. A scan's body counts as often as it runs, the larger branch of a cond counts, a manual
// region counts for all its devices. The body of a while loop counts once, since how often it runs
// is not known. Kernels of attention count their products (attention_kernel_flops), other custom
// calls nothing.
double matmul_flops(const Function& function);

}  // namespace espalier
