#include "espalier/kernels/kernels.h"

#include "espalier/kernels/chosen.h"

namespace espalier {
namespace kernels {

std::vector<Chosen> runnable() {
  std::vector<Chosen> out;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) out.push_back({"avx512", avx512_heads(), avx512_rows()});
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    out.push_back({"avx2", avx2_heads(), avx2_rows()});
  }
#endif
  out.push_back({"baseline", baseline_heads(), baseline_rows()});
  return out;
}

const Chosen& chosen() {
  static const Chosen made = runnable().front();
  return made;
}

}  // namespace kernels

Status register_kernels(const Plugin& plugin) {
  ESPALIER_TRY(kernels::register_attention(plugin));
  return kernels::register_rows(plugin);
}

}  // namespace espalier
