#include "espalier/runtime/runtime.h"

#include <cstdlib>

#include "espalier/kernels/kernels.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace espalier {

std::filesystem::path default_program_cache() {
  const auto from = [](const char* name) {
    const char* value = std::getenv(name);
    return std::filesystem::path(value == nullptr ? "" : value);
  };
  if (const auto cache = from("ESPALIER_CACHE"); !cache.empty()) return cache / "programs";
  if (const auto xdg = from("XDG_CACHE_HOME"); !xdg.empty()) return xdg / "espalier" / "programs";
  if (const auto home = from("HOME"); !home.empty()) {
    return home / ".cache" / "espalier" / "programs";
  }
  return {};
}

namespace {

// XLA for CPU frees a step's buffers after each step. By default glibc gives large ones back to the
// kernel at once, and the next step faults every page in again: a third of the time of a small
// model's step. This keeps freed memory for the next step.
void keep_freed_memory() {
#ifdef __GLIBC__
  constexpr int kNever = -1;
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, kNever);
  mallopt(M_TOP_PAD, 64 << 20);
#endif
}

}  // namespace

Result<std::shared_ptr<Runtime>> Runtime::create(RuntimeOptions options) {
  ESPALIER_ASSIGN(std::shared_ptr<Plugin> plugin, Plugin::load(options.plugin));
  const int64_t wanted = options.mesh.size();
  const ClientOptions cpu_options = {
      {"cpu_device_count", options.devices > 0 ? options.devices : wanted}};
  // Only the CPU makes devices to order. A plugin by path is asked what it is first.
  const bool is_cpu = options.plugin == "cpu";
  if (is_cpu) keep_freed_memory();
  ESPALIER_ASSIGN(std::shared_ptr<Client> client,
                  Client::create(plugin, is_cpu ? cpu_options : ClientOptions()));
  if (!is_cpu && client->platform_name() == "cpu") {
    keep_freed_memory();
    ESPALIER_ASSIGN(client, Client::create(plugin, cpu_options));
  }
  if (client->platform_name() == "cpu") ESPALIER_TRY(register_kernels(*plugin));

  const auto& devices = client->devices();
  const int64_t present =
      options.devices > 0 ? options.devices : static_cast<int64_t>(devices.size());
  if (present > static_cast<int64_t>(devices.size())) {
    return Failure{Code::kInvalidArgument, "[runtime] devices asks for " + std::to_string(present) +
                                               " devices, but " + client->platform_name() +
                                               " has " + std::to_string(devices.size())};
  }
  // A mesh without axes is one device, whatever the machine has.
  if (!options.mesh.axes().empty() && wanted != present) {
    return Failure{Code::kInvalidArgument,
                   "the mesh " + options.mesh.to_string() + " needs " + std::to_string(wanted) +
                       " devices, but there are " + std::to_string(present) + " of " +
                       client->platform_name() +
                       "; change [mesh] axes or [runtime] devices so that they agree"};
  }
  auto runtime = std::shared_ptr<Runtime>(new Runtime(std::move(options), std::move(client)));
  for (int64_t i = 0; i < wanted; ++i) {
    runtime->devices_.push_back(&runtime->client_->devices()[static_cast<size_t>(i)]);
  }
  return runtime;
}

std::vector<int64_t> Runtime::device_ids() const {
  std::vector<int64_t> out;
  for (const Device* device : devices_) out.push_back(device->id());
  return out;
}

}  // namespace espalier
