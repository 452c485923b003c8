// The code for this processor, and how each file of kernels makes its own known; internal.
#pragma once

#include "espalier/kernels/attention_heads.h"
#include "espalier/kernels/rows.h"
#include "espalier/pjrt/plugin.h"

namespace espalier::kernels {

struct Chosen {
  HeadKernels heads;
  RowKernels rows;
};
// The widest that this processor has.
const Chosen& chosen();

Status register_attention(const Plugin& plugin);
Status register_rows(const Plugin& plugin);

}  // namespace espalier::kernels
