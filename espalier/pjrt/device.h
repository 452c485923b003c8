// Device and Memory: what a client can compute on and where its arrays can lie.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/base/error.h"
#include "espalier/pjrt/named_value.h"

struct PJRT_Device;
struct PJRT_DeviceDescription;
struct PJRT_Memory;

namespace espalier {

class Plugin;

// What is known of a device without touching it; topologies describe absent ones the same way.
struct DeviceDescription {
  int id = 0;             // unique among the platform's devices; what device assignments name
  int process_index = 0;  // process that can address it
  std::string kind;       // e.g. "cpu", "NVIDIA H100 80GB HBM3", "TPU v5 lite"
  std::string text;       // e.g. "CpuDevice(id=0)"
  NamedValues attributes;
};
Result<DeviceDescription> describe_device(const Plugin& plugin, PJRT_DeviceDescription* raw);

// A memory space, e.g. kind "device", "pinned_host", "unpinned_host". Owned by its client.
class Memory {
 public:
  Memory(int id, std::string kind, PJRT_Memory* raw) : id_(id), kind_(std::move(kind)), raw_(raw) {}
  int id() const { return id_; }
  const std::string& kind() const { return kind_; }
  PJRT_Memory* raw() const { return raw_; }

 private:
  int id_;
  std::string kind_;
  PJRT_Memory* raw_;
};

// Bytes, as the device's allocator counts them. What a platform does not tell is empty.
struct DeviceMemoryStats {
  int64_t bytes_in_use = 0;
  std::optional<int64_t> peak_bytes_in_use;
  std::optional<int64_t> bytes_limit;
  std::optional<int64_t> largest_alloc_size;
};

// An addressable device. Owned by its client, valid as long as that; immutable, so thread-safe.
class Device {
 public:
  Device(const Plugin* plugin, PJRT_Device* raw, DeviceDescription description,
         std::vector<const Memory*> memories, const Memory* default_memory)
      : plugin_(plugin),
        raw_(raw),
        description_(std::move(description)),
        memories_(std::move(memories)),
        default_memory_(default_memory) {}

  int id() const { return description_.id; }
  const std::string& kind() const { return description_.kind; }
  const DeviceDescription& description() const { return description_; }
  const std::vector<const Memory*>& memories() const { return memories_; }
  // Null when the platform has no memory spaces.
  const Memory* default_memory() const { return default_memory_; }
  // The memory of a kind; kNotFound names the kinds that there are.
  Result<const Memory*> memory(std::string_view kind) const;
  // kUnimplemented where the platform does not count (CPU).
  Result<DeviceMemoryStats> memory_stats() const;
  PJRT_Device* raw() const { return raw_; }

 private:
  const Plugin* plugin_;
  PJRT_Device* raw_;
  DeviceDescription description_;
  std::vector<const Memory*> memories_;
  const Memory* default_memory_;
};

}  // namespace espalier
