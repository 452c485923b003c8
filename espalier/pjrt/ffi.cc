#include "espalier/pjrt/ffi.h"

#include <fmt/format.h>

#include <cstddef>
#include <map>
#include <mutex>
#include <string>
#include <tuple>

#include "espalier/pjrt/call.h"
#include "xla/pjrt/c/pjrt_c_api_ffi_extension.h"

namespace espalier {
namespace {

using Target = std::tuple<const PJRT_Api*, std::string, std::string>;  // plugin, name, platform

// Plugins take a second handler under a taken name without a word, so what is taken is kept here.
struct Registered {
  std::mutex mutex;
  std::map<Target, FfiHandler*> handlers;
};

Registered& registered() {
  static auto* instance = new Registered;
  return *instance;
}

}  // namespace

Status register_ffi_handler(const Plugin& plugin, std::string_view name, std::string_view platform,
                            FfiHandler* handler) {
  const auto* extension =
      reinterpret_cast<const PJRT_FFI_Extension*>(plugin.extension(PJRT_Extension_Type_FFI));
  constexpr size_t kNeeded = offsetof(PJRT_FFI_Extension, register_handler) + sizeof(void*);
  if (extension == nullptr || extension->base.struct_size < kNeeded ||
      extension->register_handler == nullptr) {
    return Failure{Code::kUnimplemented,
                   fmt::format("the plugin '{}' (PJRT C API {}.{}) cannot register the custom call "
                               "'{}': it has no FFI extension; use the built-in implementation",
                               plugin.path().string(), plugin.api_version().major,
                               plugin.api_version().minor, name)};
  }
  const std::lock_guard lock(registered().mutex);
  const Target target(plugin.api(), name, platform);
  auto& handlers = registered().handlers;
  if (auto it = handlers.find(target); it != handlers.end()) {
    if (it->second == handler) return {};
    return Failure{Code::kAlreadyExists,
                   fmt::format("the custom call '{}' on platform {} has another handler already; "
                               "use another name",
                               name, platform)};
  }
  ESPALIER_PJRT_STRUCT(PJRT_FFI_Register_Handler_Args, args);
  args.target_name = name.data();
  args.target_name_size = name.size();
  args.handler = reinterpret_cast<void*>(handler);
  args.platform_name = platform.data();
  args.platform_name_size = platform.size();
  if (PJRT_Error* error = extension->register_handler(&args)) {
    return with_context(
        fmt::format("cannot register the custom call '{}' on platform {}", name, platform),
        take_error(*plugin.api(), error, "PJRT_FFI_Register_Handler"));
  }
  handlers.emplace(target, handler);
  return {};
}

}  // namespace espalier
