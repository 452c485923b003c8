// Runtime: a plugin's client and the mesh laid over its devices.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "espalier/mesh/mesh.h"
#include "espalier/pjrt/client.h"

namespace espalier {

struct RuntimeOptions {
  std::string plugin = "cpu";  // cpu, cuda, tpu or a path
  Mesh mesh{};                 // without axes: one device
  // Devices to make on CPU; 0: as many as the mesh has.
  int64_t devices = 0;
  // Compiled programs are kept here; empty: not kept. See default_program_cache().
  std::filesystem::path program_cache{};
};

// $ESPALIER_CACHE/programs, else $XDG_CACHE_HOME/espalier/programs, else
// ~/.cache/espalier/programs.
std::filesystem::path default_program_cache();

// Immutable once created; shared by arrays and programs. Thread-safe.
class Runtime {
 public:
  // kInvalidArgument where the mesh's size differs from the number of devices.
  // With a CPU plugin, sets glibc's malloc for the whole process to keep freed memory: the buffers
  // of a step are the next one's, and the process stays as large as it once was.
  static Result<std::shared_ptr<Runtime>> create(RuntimeOptions options);

  const Mesh& mesh() const { return options_.mesh; }
  const RuntimeOptions& options() const { return options_; }
  Client& client() const { return *client_; }
  // The mesh's devices, row-major.
  const std::vector<const Device*>& devices() const { return devices_; }
  std::vector<int64_t> device_ids() const;

 private:
  Runtime(RuntimeOptions options, std::shared_ptr<Client> client)
      : options_(std::move(options)), client_(std::move(client)) {}
  RuntimeOptions options_;
  std::shared_ptr<Client> client_;
  std::vector<const Device*> devices_;
};

}  // namespace espalier
