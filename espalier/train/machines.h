// Machine: the published numbers of one device of a known part.
#pragma once

#include <string_view>

#include "espalier/base/dtype.h"

namespace espalier {

struct Machine {
  std::string_view part;    // the words of the device's kind that tell parts apart: "A100 SXM4"
  std::string_view memory;  // a word of the kind that must be there too: "40GB"; empty: none
  double bf16 = 0;          // dense FLOP/s of matrix products
  double f32 = 0;           // as XLA runs them by default: TF32 on NVIDIA, bf16 on TPU
  double memory_bytes = 0;
  double memory_bandwidth = 0;  // bytes/s
  // Bytes/s that one device can receive from the others of its slice or host over all its links at
  // once; 0: no such links, or not known.
  double interconnect = 0;

  double flops(DType dtype) const { return dtype == DType::kBF16 ? bf16 : f32; }
};

// By the kind as the plugin names it ("NVIDIA H100 80GB HBM3"); null where it is not known: also
// for a variant that is not listed, and for a share of a device (MIG).
const Machine* find_machine(std::string_view device_kind);

}  // namespace espalier
