#include "espalier/pjrt/client.h"

#include <fmt/format.h>

#include <cstdlib>

#include "espalier/pjrt/call.h"

namespace espalier {
namespace {

PJRT_HostBufferSemantics to_pjrt(HostSemantics semantics) {
  switch (semantics) {
    case HostSemantics::kOnlyDuringCall:
      return PJRT_HostBufferSemantics_kImmutableOnlyDuringCall;
    case HostSemantics::kUntilTransferCompletes:
      return PJRT_HostBufferSemantics_kImmutableUntilTransferCompletes;
    case HostSemantics::kZeroCopy:
      return PJRT_HostBufferSemantics_kImmutableZeroCopy;
    case HostSemantics::kMutableZeroCopy:
      return PJRT_HostBufferSemantics_kMutableZeroCopy;
  }
  return PJRT_HostBufferSemantics_kImmutableOnlyDuringCall;
}

}  // namespace

Result<std::shared_ptr<Client>> Client::create(std::shared_ptr<Plugin> plugin,
                                               const ClientOptions& options) {
  if (auto it = options.find("cpu_device_count"); it != options.end()) {
    const auto* count = std::get_if<int64_t>(&it->second);
    if (count != nullptr && *count > 1) setenv("PJRT_NPROC", "32", /*overwrite=*/0);
  }
  const std::vector<PJRT_NamedValue> values = espalier::to_pjrt(options);
  ESPALIER_PJRT_STRUCT(PJRT_Client_Create_Args, args);
  args.create_options = values.data();
  args.num_options = values.size();
  if (auto status = ESPALIER_PJRT_CALL(*plugin, PJRT_Client_Create, args); !status) {
    return with_context(
        fmt::format("cannot create a client of the plugin '{}'", plugin->path().string()),
        status.failure());
  }
  std::shared_ptr<Client> client(new Client(std::move(plugin), args.client));

  ESPALIER_PJRT_STRUCT(PJRT_Client_PlatformName_Args, name);
  name.client = client->raw_;
  ESPALIER_TRY(ESPALIER_PJRT_CALL(client->plugin(), PJRT_Client_PlatformName, name));
  client->platform_name_ = text_view(name.platform_name, name.platform_name_size);
  ESPALIER_PJRT_STRUCT(PJRT_Client_PlatformVersion_Args, version);
  version.client = client->raw_;
  ESPALIER_TRY(ESPALIER_PJRT_CALL(client->plugin(), PJRT_Client_PlatformVersion, version));
  client->platform_version_ = text_view(version.platform_version, version.platform_version_size);
  ESPALIER_PJRT_STRUCT(PJRT_Client_ProcessIndex_Args, process);
  process.client = client->raw_;
  ESPALIER_TRY(ESPALIER_PJRT_CALL(client->plugin(), PJRT_Client_ProcessIndex, process));
  client->process_index_ = process.process_index;
  ESPALIER_TRY(client->read_memories());
  ESPALIER_TRY(client->read_devices());
  return client;
}

Client::~Client() {
  ESPALIER_PJRT_STRUCT(PJRT_Client_Destroy_Args, args);
  args.client = raw_;
  (void)ESPALIER_PJRT_CALL(*plugin_, PJRT_Client_Destroy, args);
}

Status Client::read_memories() {
  ESPALIER_PJRT_STRUCT(PJRT_Client_AddressableMemories_Args, args);
  args.client = raw_;
  ESPALIER_TRY(ESPALIER_PJRT_CALL(*plugin_, PJRT_Client_AddressableMemories, args));
  for (size_t i = 0; i < args.num_addressable_memories; ++i) {
    PJRT_Memory* raw = args.addressable_memories[i];
    ESPALIER_PJRT_STRUCT(PJRT_Memory_Id_Args, id);
    id.memory = raw;
    ESPALIER_TRY(ESPALIER_PJRT_CALL(*plugin_, PJRT_Memory_Id, id));
    ESPALIER_PJRT_STRUCT(PJRT_Memory_Kind_Args, kind);
    kind.memory = raw;
    ESPALIER_TRY(ESPALIER_PJRT_CALL(*plugin_, PJRT_Memory_Kind, kind));
    memories_.emplace_back(id.id, std::string(text_view(kind.kind, kind.kind_size)), raw);
  }
  return {};
}

Status Client::read_devices() {
  ESPALIER_PJRT_STRUCT(PJRT_Client_Devices_Args, global);
  global.client = raw_;
  ESPALIER_TRY(ESPALIER_PJRT_CALL(*plugin_, PJRT_Client_Devices, global));
  num_global_devices_ = global.num_devices;

  ESPALIER_PJRT_STRUCT(PJRT_Client_AddressableDevices_Args, args);
  args.client = raw_;
  ESPALIER_TRY(ESPALIER_PJRT_CALL(*plugin_, PJRT_Client_AddressableDevices, args));
  for (size_t i = 0; i < args.num_addressable_devices; ++i) {
    PJRT_Device* raw = args.addressable_devices[i];
    ESPALIER_PJRT_STRUCT(PJRT_Device_GetDescription_Args, get);
    get.device = raw;
    ESPALIER_TRY(ESPALIER_PJRT_CALL(*plugin_, PJRT_Device_GetDescription, get));
    ESPALIER_ASSIGN(auto description, describe_device(*plugin_, get.device_description));

    ESPALIER_PJRT_STRUCT(PJRT_Device_AddressableMemories_Args, list);
    list.device = raw;
    ESPALIER_TRY(ESPALIER_PJRT_CALL(*plugin_, PJRT_Device_AddressableMemories, list));
    std::vector<const Memory*> memories;
    for (size_t j = 0; j < list.num_memories; ++j) {
      ESPALIER_ASSIGN(const Memory* memory, memory_of(list.memories[j]));
      memories.push_back(memory);
    }
    const Memory* default_memory = nullptr;
    if (!memories.empty()) {
      ESPALIER_PJRT_STRUCT(PJRT_Device_DefaultMemory_Args, chosen);
      chosen.device = raw;
      ESPALIER_TRY(ESPALIER_PJRT_CALL(*plugin_, PJRT_Device_DefaultMemory, chosen));
      ESPALIER_ASSIGN(default_memory, memory_of(chosen.memory));
    }
    devices_.emplace_back(plugin_.get(), raw, std::move(description), std::move(memories),
                          default_memory);
  }
  return {};
}

Result<const Device*> Client::device_by_id(int id) const {
  std::string known;
  for (const Device& each : devices_) {
    if (each.id() == id) return &each;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", each.id());
  }
  return Failure{Code::kNotFound, fmt::format("no device with id {} on platform {}; there are: {}",
                                              id, platform_name_, known)};
}

std::vector<const Device*> Client::devices_of_kind(std::string_view kind) const {
  std::vector<const Device*> out;
  for (const Device& each : devices_) {
    if (each.kind() == kind) out.push_back(&each);
  }
  return out;
}

Result<const Device*> Client::device_of(PJRT_Device* raw) const {
  for (const Device& each : devices_) {
    if (each.raw() == raw) return &each;
  }
  return Failure{Code::kInternal, "the plugin named a device that its client does not list"};
}

Result<const Memory*> Client::memory_of(PJRT_Memory* raw) const {
  for (const Memory& each : memories_) {
    if (each.raw() == raw) return &each;
  }
  return Failure{Code::kInternal, "the plugin named a memory that its client does not list"};
}

Result<HostTransfer> Client::buffer_from_host(const void* data, DType dtype, const Dims& dims,
                                              const Device& device, HostSemantics semantics,
                                              const Memory* memory) {
  ESPALIER_PJRT_STRUCT(PJRT_Client_BufferFromHostBuffer_Args, args);
  args.client = raw_;
  args.data = data;
  args.type = espalier::to_pjrt(dtype);
  args.dims = dims.data();
  args.num_dims = dims.size();
  args.host_buffer_semantics = to_pjrt(semantics);
  args.device = device.raw();
  args.memory = memory == nullptr ? nullptr : memory->raw();
  if (auto status = ESPALIER_PJRT_CALL(*plugin_, PJRT_Client_BufferFromHostBuffer, args); !status) {
    return with_context(fmt::format("cannot copy an array {} of {} to device {}", to_string(dims),
                                    hlo_name(dtype), device.description().text),
                        status.failure());
  }
  return HostTransfer{Buffer(shared_from_this(), args.buffer),
                      Event(plugin_.get(), args.done_with_host_buffer)};
}

Result<Buffer> Client::buffer_from_host(const HostArray& array, const Device& device,
                                        const Memory* memory) {
  ESPALIER_ASSIGN(auto transfer, buffer_from_host(array.data(), array.dtype(), array.dims(), device,
                                                  HostSemantics::kOnlyDuringCall, memory));
  return std::move(transfer.buffer);
}

Result<LoadedExecutable> Client::compile(std::string_view module, const CompileOptions& options) {
  ESPALIER_ASSIGN(const std::string serialized, options.serialize());
  static constexpr std::string_view kFormat = "mlir";
  ESPALIER_PJRT_STRUCT(PJRT_Program, program);
  program.code = const_cast<char*>(module.data());  // an input here; the plugin only reads it
  program.code_size = module.size();
  program.format = kFormat.data();
  program.format_size = kFormat.size();
  ESPALIER_PJRT_STRUCT(PJRT_Client_Compile_Args, args);
  args.client = raw_;
  args.program = &program;
  args.compile_options = serialized.data();
  args.compile_options_size = serialized.size();
  if (auto status = ESPALIER_PJRT_CALL(*plugin_, PJRT_Client_Compile, args); !status) {
    return with_context(fmt::format("cannot compile the module for {} devices of platform {}",
                                    options.num_replicas * options.num_partitions, platform_name_),
                        status.failure());
  }
  return LoadedExecutable::wrap(shared_from_this(), args.executable);
}

Result<LoadedExecutable> Client::deserialize_and_load(std::string_view bytes) {
  ESPALIER_PJRT_STRUCT(PJRT_Executable_DeserializeAndLoad_Args, args);
  args.client = raw_;
  args.serialized_executable = bytes.data();
  args.serialized_executable_size = bytes.size();
  if (auto status = ESPALIER_PJRT_CALL(*plugin_, PJRT_Executable_DeserializeAndLoad, args);
      !status) {
    return with_context(fmt::format("cannot load a stored executable of {} bytes on platform {}",
                                    bytes.size(), platform_name_),
                        status.failure());
  }
  return LoadedExecutable::wrap(shared_from_this(), args.loaded_executable);
}

}  // namespace espalier
