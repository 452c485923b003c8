#include "cli/devices.h"

#include <CLI/CLI.hpp>
#include <memory>

#include "espalier/base/log.h"
#include "espalier/pjrt/client.h"

namespace espalier {
namespace {

std::string memory_text(const Device& device) {
  std::string out;
  for (const Memory* memory : device.memories()) out += (out.empty() ? "" : ", ") + memory->kind();
  const Result<DeviceMemoryStats> stats = device.memory_stats();
  if (stats.ok() && stats->bytes_limit) {
    constexpr double kGib = 1024.0 * 1024.0 * 1024.0;
    out += fmt::format("; {:.1f} of {:.1f} GiB in use",
                       static_cast<double>(stats->bytes_in_use) / kGib,
                       static_cast<double>(*stats->bytes_limit) / kGib);
  }
  return out;
}

void run_devices(const std::string& name, int64_t count) {
  const auto plugin = Plugin::load(name).value_or_throw();
  ClientOptions options;
  if (count > 0) options["cpu_device_count"] = count;
  const auto client = Client::create(plugin, options).value_or_throw();
  const ApiVersion version = plugin->api_version();
  out().info("{} ({}), PJRT API {}.{}\n  plugin {}", client->platform_name(),
             client->platform_version(), version.major, version.minor, plugin->path().string());
  for (const Device& device : client->devices()) {
    out().info("  {:>4}  {}  memory: {}", device.id(), device.kind(), memory_text(device));
  }
}

}  // namespace

void add_devices(CLI::App& app) {
  struct Options {
    std::string plugin = "cpu";
    int64_t devices = 0;
  };
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("devices", "List the devices of a plugin.");
  command->add_option("--plugin", options->plugin, "PJRT plugin: cpu, cuda, tpu or a path.");
  command->add_option("--devices", options->devices, "On CPU: how many devices to make.")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 16));
  command->callback([options] { run_devices(options->plugin, options->devices); });
}

}  // namespace espalier
