#include "espalier/kernels/kernels.h"

#include "espalier/kernels/chosen.h"

namespace espalier {
namespace kernels {
namespace {

Chosen choose() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return {avx512_heads(), avx512_rows()};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    return {avx2_heads(), avx2_rows()};
  }
#endif
  return {baseline_heads(), baseline_rows()};
}

}  // namespace

const Chosen& chosen() {
  static const Chosen made = choose();
  return made;
}

}  // namespace kernels

Status register_kernels(const Plugin& plugin) {
  ESPALIER_TRY(kernels::register_attention(plugin));
  return kernels::register_rows(plugin);
}

}  // namespace espalier
