#include "espalier/pjrt/gpu_targets.h"

#include <fmt/format.h>

#include <cstdint>

namespace espalier {
namespace {

// Sources. Cores (streaming multiprocessors), FP32 units of each, boost clock and L2 cache:
// NVIDIA's white papers of the A100 (2020) and H100 (2022) architectures. Memory and its bandwidth:
// the data sheets of A100, H100 and H200; the H200 is an H100 with other memory. Threads, registers
// and shared memory: "CUDA C++ Programming Guide", table of technical specifications per compute
// capability (8.0 and 9.0); a block may have 1 KiB less of shared memory than its core has.
struct Gpu {
  std::string_view name, device;  // here; as the driver calls it
  int major;                      // of the compute capability; the minor one is 0
  int cores, fpus_per_core;
  double clock_ghz;
  int64_t shared_per_core;  // bytes
  int64_t l2_bytes;
  int64_t memory_bytes, memory_bandwidth;  // bytes, bytes/s
  int nvlinks;
};
constexpr int64_t kKib = 1024, kMib = 1024 * kKib, kGiga = 1000000000;
constexpr Gpu kGpus[] = {
    {"a100", "NVIDIA A100-SXM4-80GB", 8, 108, 64, 1.41, 164 * kKib, 40 * kMib, 80 * kGiga,
     2039 * kGiga, 12},
    {"a100-40gb", "NVIDIA A100-SXM4-40GB", 8, 108, 64, 1.41, 164 * kKib, 40 * kMib, 40 * kGiga,
     1555 * kGiga, 12},
    {"h100", "NVIDIA H100 80GB HBM3", 9, 132, 128, 1.98, 228 * kKib, 50 * kMib, 80 * kGiga,
     3350 * kGiga, 18},
    {"h200", "NVIDIA H200", 9, 132, 128, 1.98, 228 * kKib, 50 * kMib, 141 * kGiga, 4800 * kGiga,
     18},
};

}  // namespace

std::string gpu_target_config(std::string_view name) {
  for (const Gpu& gpu : kGpus) {
    if (gpu.name != name) continue;
    std::string out = "gpu_device_info {\n";
    const auto add = [&](std::string_view key, const auto& value) {
      out += fmt::format("  {}: {}\n", key, value);
    };
    add("name", fmt::format("\"{}\"", gpu.device));
    add("device_vendor", "\"NVIDIA Corporation\"");
    add("threads_per_block_limit", 1024);
    add("threads_per_warp", 32);
    add("threads_per_core_limit", 2048);
    add("shared_memory_per_block", 48 * kKib);
    add("shared_memory_per_core", gpu.shared_per_core);
    add("shared_memory_per_block_optin", gpu.shared_per_core - kKib);
    add("core_count", gpu.cores);
    add("fpus_per_core", gpu.fpus_per_core);
    add("block_dim_limit_x", 2147483647);
    add("block_dim_limit_y", 65535);
    add("block_dim_limit_z", 65535);
    add("thread_dim_limit_x", 1024);
    add("thread_dim_limit_y", 1024);
    add("thread_dim_limit_z", 64);
    add("registers_per_core_limit", 65536);
    add("registers_per_block_limit", 65536);
    add("memory_bandwidth", gpu.memory_bandwidth);
    add("device_memory_size", gpu.memory_bytes);
    add("l2_cache_size", gpu.l2_bytes);
    add("clock_rate_ghz", gpu.clock_ghz);
    // Hopper's matrix units take the instructions of "9.0a", which code for plain 9.0 may not use.
    out += fmt::format("  cuda_compute_capability {{ major: {} feature_extension: {} }}\n",
                       gpu.major, gpu.major >= 9 ? "ACCELERATED_FEATURES" : "NONE");
    out += fmt::format("  device_interconnect_info {{ active_links: {} }}\n", gpu.nvlinks);
    out += "}\nplatform_name: \"CUDA\"\n";
    // Of the libraries that jax-cuda13-pjrt stands on.
    out += "dnn_version_info { major: 9 minor: 10 patch: 0 }\n";
    out += "runtime_version { major: 13 minor: 0 patch: 0 }\n";
    out += fmt::format("device_description_str: \"{}\"\n", gpu.device);
    return out;
  }
  return {};
}

std::string gpu_target_device(std::string_view name) {
  for (const Gpu& gpu : kGpus) {
    if (gpu.name == name) return std::string(gpu.device);
  }
  return {};
}

std::vector<std::string> gpu_target_names() {
  std::vector<std::string> out;
  for (const Gpu& gpu : kGpus) out.emplace_back(gpu.name);
  return out;
}

}  // namespace espalier
