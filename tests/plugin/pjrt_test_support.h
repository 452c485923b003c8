// Clients of the CPU plugins that the tests of espalier/pjrt run on.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "espalier/base/locate.h"
#include "espalier/pjrt/client.h"

namespace espalier::test {

struct PluginFile {
  const char* label;
  const char* resource;
};

// Two builds of XLA with different versions of the C API: the default plugin is newer than the
// headers, the other one older.
inline constexpr PluginFile kPluginFiles[] = {
    {"default", "plugins/cpu/pjrt_c_api_cpu_plugin.so"},
    {"older", "plugins/cpu-old/libpjrt_cpu.so"},
};

// Runs each test on both plugins; skips the one whose file is not there.
class PluginTest : public testing::TestWithParam<PluginFile> {
 protected:
  void SetUp() override {
    auto path = find_resource(GetParam().resource);
    if (!path) GTEST_SKIP() << "plugin not present: " << path.failure().message;
    auto loaded = Plugin::load(path->string());
    ASSERT_TRUE(loaded) << loaded.failure().message;
    plugin_ = std::move(loaded).value();
  }

  // A client with so many CPU devices; made once per test program.
  std::shared_ptr<Client> client(int64_t devices) {
    static std::map<std::pair<std::string, int64_t>, std::shared_ptr<Client>> clients;
    auto& slot = clients[{GetParam().resource, devices}];
    if (slot == nullptr) {
      slot = Client::create(plugin_, {{"cpu_device_count", devices}}).value_or_throw();
    }
    return slot;
  }

  std::shared_ptr<Plugin> plugin_;
};

inline std::string plugin_label(const testing::TestParamInfo<PluginFile>& info) {
  return info.param.label;
}

// Options for a program on the first n devices.
inline CompileOptions on_devices(int64_t n) {
  CompileOptions options;
  options.num_partitions = n;
  for (int64_t id = 0; id < n; ++id) options.device_ids.push_back(id);
  return options;
}

inline Buffer put(Client& client, const HostArray& array, size_t device = 0) {
  return client.buffer_from_host(array, client.devices().at(device)).value_or_throw();
}

inline std::vector<float> floats(const Buffer& buffer) {
  const HostArray array = buffer.to_host().value_or_throw();
  const auto values = array.as<float>();
  return {values.begin(), values.end()};
}

}  // namespace espalier::test
