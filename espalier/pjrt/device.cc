#include "espalier/pjrt/device.h"

#include <fmt/format.h>

#include "espalier/pjrt/call.h"

namespace espalier {

Result<DeviceDescription> describe_device(const Plugin& plugin, PJRT_DeviceDescription* raw) {
  DeviceDescription out;
  ESPALIER_PJRT_STRUCT(PJRT_DeviceDescription_Id_Args, id);
  id.device_description = raw;
  ESPALIER_TRY(ESPALIER_PJRT_CALL(plugin, PJRT_DeviceDescription_Id, id));
  out.id = id.id;

  ESPALIER_PJRT_STRUCT(PJRT_DeviceDescription_ProcessIndex_Args, process);
  process.device_description = raw;
  ESPALIER_TRY(ESPALIER_PJRT_CALL(plugin, PJRT_DeviceDescription_ProcessIndex, process));
  out.process_index = process.process_index;

  ESPALIER_PJRT_STRUCT(PJRT_DeviceDescription_Kind_Args, kind);
  kind.device_description = raw;
  ESPALIER_TRY(ESPALIER_PJRT_CALL(plugin, PJRT_DeviceDescription_Kind, kind));
  out.kind = text_view(kind.device_kind, kind.device_kind_size);

  ESPALIER_PJRT_STRUCT(PJRT_DeviceDescription_ToString_Args, text);
  text.device_description = raw;
  ESPALIER_TRY(ESPALIER_PJRT_CALL(plugin, PJRT_DeviceDescription_ToString, text));
  out.text = text_view(text.to_string, text.to_string_size);

  ESPALIER_PJRT_STRUCT(PJRT_DeviceDescription_Attributes_Args, attributes);
  attributes.device_description = raw;
  ESPALIER_TRY(ESPALIER_PJRT_CALL(plugin, PJRT_DeviceDescription_Attributes, attributes));
  out.attributes = from_pjrt({attributes.attributes, attributes.num_attributes});
  return out;
}

Result<const Memory*> Device::memory(std::string_view kind) const {
  std::string known;
  for (const Memory* each : memories_) {
    if (each->kind() == kind) return each;
    known += (known.empty() ? "" : ", ") + each->kind();
  }
  return Failure{Code::kNotFound, fmt::format("device {} has no memory of kind '{}'; it has: {}",
                                              description_.text, kind, known)};
}

Result<DeviceMemoryStats> Device::memory_stats() const {
  ESPALIER_PJRT_STRUCT(PJRT_Device_MemoryStats_Args, args);
  args.device = raw_;
  ESPALIER_TRY(ESPALIER_PJRT_CALL(*plugin_, PJRT_Device_MemoryStats, args));
  DeviceMemoryStats out;
  out.bytes_in_use = args.bytes_in_use;
  if (args.peak_bytes_in_use_is_set) out.peak_bytes_in_use = args.peak_bytes_in_use;
  if (args.bytes_limit_is_set) out.bytes_limit = args.bytes_limit;
  if (args.largest_alloc_size_is_set) out.largest_alloc_size = args.largest_alloc_size;
  return out;
}

}  // namespace espalier
