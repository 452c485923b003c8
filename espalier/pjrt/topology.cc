#include "espalier/pjrt/topology.h"

#include <fmt/format.h>

#include "espalier/pjrt/call.h"

namespace espalier {

Result<Topology> Topology::create(std::shared_ptr<Plugin> plugin, std::string_view name,
                                  const NamedValues& options) {
  const std::vector<PJRT_NamedValue> values = to_pjrt(options);
  ESPALIER_PJRT_STRUCT(PJRT_TopologyDescription_Create_Args, args);
  args.topology_name = name.data();
  args.topology_name_size = name.size();
  args.create_options = values.data();
  args.num_options = values.size();
  if (auto status = ESPALIER_PJRT_CALL(*plugin, PJRT_TopologyDescription_Create, args); !status) {
    return with_context(fmt::format("the plugin '{}' cannot describe the topology '{}'",
                                    plugin->path().string(), name),
                        status.failure());
  }
  std::shared_ptr<PJRT_TopologyDescription> raw(
      args.topology, [plugin](PJRT_TopologyDescription* topology) {
        ESPALIER_PJRT_STRUCT(PJRT_TopologyDescription_Destroy_Args, destroy);
        destroy.topology = topology;
        (void)ESPALIER_PJRT_CALL(*plugin, PJRT_TopologyDescription_Destroy, destroy);
      });
  Topology out(plugin, std::move(raw));

  ESPALIER_PJRT_STRUCT(PJRT_TopologyDescription_PlatformName_Args, platform);
  platform.topology = out.raw_.get();
  ESPALIER_TRY(ESPALIER_PJRT_CALL(*plugin, PJRT_TopologyDescription_PlatformName, platform));
  out.platform_name_ = text_view(platform.platform_name, platform.platform_name_size);
  ESPALIER_PJRT_STRUCT(PJRT_TopologyDescription_PlatformVersion_Args, version);
  version.topology = out.raw_.get();
  ESPALIER_TRY(ESPALIER_PJRT_CALL(*plugin, PJRT_TopologyDescription_PlatformVersion, version));
  out.platform_version_ = text_view(version.platform_version, version.platform_version_size);
  ESPALIER_PJRT_STRUCT(PJRT_TopologyDescription_GetDeviceDescriptions_Args, devices);
  devices.topology = out.raw_.get();
  ESPALIER_TRY(
      ESPALIER_PJRT_CALL(*plugin, PJRT_TopologyDescription_GetDeviceDescriptions, devices));
  for (size_t i = 0; i < devices.num_descriptions; ++i) {
    ESPALIER_ASSIGN(auto description, describe_device(*plugin, devices.descriptions[i]));
    out.devices_.push_back(std::move(description));
  }
  return out;
}

Result<Executable> Topology::compile(std::string_view module, const CompileOptions& options) const {
  ESPALIER_ASSIGN(const std::string serialized, options.serialize());
  static constexpr std::string_view kFormat = "mlir";
  ESPALIER_PJRT_STRUCT(PJRT_Program, program);
  program.code = const_cast<char*>(module.data());  // an input here; the plugin only reads it
  program.code_size = module.size();
  program.format = kFormat.data();
  program.format_size = kFormat.size();
  ESPALIER_PJRT_STRUCT(PJRT_Compile_Args, args);
  args.topology = raw_.get();
  args.program = &program;
  args.compile_options = serialized.data();
  args.compile_options_size = serialized.size();
  if (auto status = ESPALIER_PJRT_CALL(*plugin_, PJRT_Compile, args); !status) {
    return with_context(fmt::format("cannot compile the module for {} devices of platform {}",
                                    options.num_replicas * options.num_partitions, platform_name_),
                        status.failure());
  }
  return Executable(plugin_.get(), raw_, args.executable);
}

}  // namespace espalier
