// Profiler: a plugin's own record of what its devices did, through the profiler extension of the
// PJRT C API (xla/backends/profiler/plugin/profiler_c_api.h).
#pragma once

#include <string>

#include "espalier/base/error.h"

struct PLUGIN_Profiler;
struct PLUGIN_Profiler_Api;

namespace espalier {

class Plugin;

// One profile: create, start, stop, collect. A plugin records one at a time. Destroying ends it,
// whatever it was at. Not thread-safe.
class Profiler {
 public:
  // Whether the plugin has one; XLA's plugins for GPU and TPU have, that for CPU has not.
  static bool available(const Plugin& plugin);
  // kUnimplemented, naming the plugin, where it has none.
  static Result<Profiler> create(const Plugin& plugin);
  Profiler(Profiler&& other) noexcept;
  Profiler& operator=(Profiler&&) = delete;
  ~Profiler();

  Status start();
  Status stop();
  // What was recorded between the two: an XSpace message (tsl/profiler/protobuf/xplane.proto), as
  // TensorBoard reads it. Once, after stop().
  Result<std::string> collect();

 private:
  Profiler(const PLUGIN_Profiler_Api* api, PLUGIN_Profiler* raw) : api_(api), raw_(raw) {}
  const PLUGIN_Profiler_Api* api_;
  PLUGIN_Profiler* raw_;
};

}  // namespace espalier
