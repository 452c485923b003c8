// Kernels: custom calls of our own, for what XLA for CPU does slowly. Each is a handler of XLA's
// FFI that a compiled program calls by name, once for each device; ops/kernel_calls.h tells what
// each computes. They work on blocks of queries, need scratch of a few arrays of T × K elements a
// thread and none of T × T, and their results do not depend on the number of threads.
#pragma once

#include "espalier/pjrt/plugin.h"

namespace espalier {

// Makes all of them known to a CPU plugin. May be called again. kUnimplemented: the plugin has no
// FFI extension.
Status register_kernels(const Plugin& plugin);

}  // namespace espalier
