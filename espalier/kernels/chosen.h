// The code for this processor, and how each file of kernels makes its own known; internal.
#pragma once

#include <vector>

#include "espalier/kernels/attention_heads.h"
#include "espalier/kernels/rows.h"
#include "espalier/pjrt/plugin.h"

namespace espalier::kernels {

struct Chosen {
  const char* name;
  HeadKernels heads;
  RowKernels rows;
};
// What this processor can run, the widest first.
std::vector<Chosen> runnable();
// The widest.
const Chosen& chosen();

Status register_attention(const Plugin& plugin);
Status register_rows(const Plugin& plugin);

}  // namespace espalier::kernels
