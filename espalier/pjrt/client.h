// Client: a plugin's runtime on this process's devices. Including this header gives all one needs
// to put arrays on devices, compile and run.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/base/dtype.h"
#include "espalier/base/error.h"
#include "espalier/base/host_array.h"
#include "espalier/pjrt/buffer.h"
#include "espalier/pjrt/compile_options.h"
#include "espalier/pjrt/device.h"
#include "espalier/pjrt/loaded_executable.h"
#include "espalier/pjrt/named_value.h"
#include "espalier/pjrt/plugin.h"

struct PJRT_Client;

namespace espalier {

// Options of a client, by the platform's names: {"cpu_device_count", 8} on CPU.
using ClientOptions = NamedValues;

// Buffers and executables hold a reference to their client, so it goes when the last of them does.
// Immutable once created; all members are thread-safe.
class Client : public std::enable_shared_from_this<Client> {
 public:
  // With a cpu_device_count above 1, sets the environment variable PJRT_NPROC=32 when unset: XLA's
  // CPU thread pool is sized from it, and with fewer threads than collectives in flight a program
  // can deadlock.
  static Result<std::shared_ptr<Client>> create(std::shared_ptr<Plugin> plugin,
                                                const ClientOptions& options = {});
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  ~Client();

  const Plugin& plugin() const { return *plugin_; }
  const std::string& platform_name() const { return platform_name_; }  // "cpu", "cuda", "tpu"
  const std::string& platform_version() const { return platform_version_; }
  int process_index() const { return process_index_; }

  // The devices of this process, in the plugin's order; pointers to them live as long as the
  // client.
  const std::vector<Device>& devices() const { return devices_; }
  size_t num_global_devices() const { return num_global_devices_; }
  // kNotFound names the ids that there are.
  Result<const Device*> device_by_id(int id) const;
  std::vector<const Device*> devices_of_kind(std::string_view kind) const;

  // Starts copying a dense row-major array to a device (to `memory` of it when given).
  Result<HostTransfer> buffer_from_host(const void* data, DType dtype, const Dims& dims,
                                        const Device& device, HostSemantics semantics,
                                        const Memory* memory = nullptr);
  // The same, done with `array` when it returns.
  Result<Buffer> buffer_from_host(const HostArray& array, const Device& device,
                                  const Memory* memory = nullptr);

  // Compiles a module: StableHLO text, or MLIR bytecode.
  Result<LoadedExecutable> compile(std::string_view module, const CompileOptions& options);
  // From Executable::serialize() of the same plugin and platform.
  Result<LoadedExecutable> deserialize_and_load(std::string_view bytes);

  // The wrapper of a raw pointer of this client.
  Result<const Device*> device_of(PJRT_Device* raw) const;
  Result<const Memory*> memory_of(PJRT_Memory* raw) const;
  PJRT_Client* raw() const { return raw_; }

 private:
  Client(std::shared_ptr<Plugin> plugin, PJRT_Client* raw)
      : plugin_(std::move(plugin)), raw_(raw) {}
  Status read_memories();
  Status read_devices();

  std::shared_ptr<Plugin> plugin_;
  PJRT_Client* raw_;
  std::string platform_name_, platform_version_;
  int process_index_ = 0;
  size_t num_global_devices_ = 0;
  std::vector<Memory> memories_;
  std::vector<Device> devices_;
};

}  // namespace espalier
