// Topology: a description of devices that need not be here, to compile for.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "espalier/base/error.h"
#include "espalier/pjrt/compile_options.h"
#include "espalier/pjrt/device.h"
#include "espalier/pjrt/executable.h"
#include "espalier/pjrt/named_value.h"
#include "espalier/pjrt/plugin.h"

struct PJRT_TopologyDescription;

namespace espalier {

// Immutable, so thread-safe but for moving and destroying.
class Topology {
 public:
  // TPU: name "v5e:2x4", "v5p:8x8x4", ... CUDA: options `target_config` (a GpuTargetConfigProto in
  // text) and `topology` ("1x8x1": slices × hosts × devices). Fails where the platform has none.
  static Result<Topology> create(std::shared_ptr<Plugin> plugin, std::string_view name,
                                 const NamedValues& options = {});
  Topology(Topology&&) noexcept = default;
  Topology& operator=(Topology&&) noexcept = default;

  const Plugin& plugin() const { return *plugin_; }
  const std::string& platform_name() const { return platform_name_; }
  const std::string& platform_version() const { return platform_version_; }
  const std::vector<DeviceDescription>& devices() const { return devices_; }

  // Compiles a module (StableHLO text, or MLIR bytecode) without a client. The compiler can abort
  // the process on an internal check: who must not die runs this in a child process.
  Result<Executable> compile(std::string_view module, const CompileOptions& options) const;

 private:
  Topology(std::shared_ptr<Plugin> plugin, std::shared_ptr<PJRT_TopologyDescription> raw)
      : plugin_(std::move(plugin)), raw_(std::move(raw)) {}

  std::shared_ptr<Plugin> plugin_;
  std::shared_ptr<PJRT_TopologyDescription> raw_;
  std::string platform_name_, platform_version_;
  std::vector<DeviceDescription> devices_;
};

}  // namespace espalier
