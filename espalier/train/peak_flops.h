// What the devices of a runtime could do: the measure of model FLOPs utilization (MFU; Chowdhery et
// al., "PaLM" (2022), appendix B).
#pragma once

#include <string_view>

#include "espalier/runtime/runtime.h"

namespace espalier {

// FLOP/s of all the runtime's devices together for matrix products in `dtype`: the published dense
// number of a known NVIDIA or TPU part times the devices; on CPU, whose virtual devices share the
// machine, the best of a few products of large matrices: too low while other programs
// run. 0 where nothing is known.
double peak_flops(const Runtime& runtime, DType dtype);

// The published number of one device by its kind as the plugin names it ("NVIDIA H100 PCIe"), 0
// where it is not known: also for a variant that is not listed, and for a share of a device (MIG).
double published_peak_flops(std::string_view device_kind, DType dtype);

}  // namespace espalier
