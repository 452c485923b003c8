#include "espalier/pjrt/plugin.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cctype>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <mutex>
#include <utility>

#include "espalier/base/locate.h"
#include "espalier/pjrt/call.h"

namespace espalier {
namespace {

// Where `dev setup` and an installation keep each known plugin, below a resource folder.
constexpr std::pair<std::string_view, std::string_view> kKnownPlugins[] = {
    {"cpu", "plugins/cpu/pjrt_c_api_cpu_plugin.so"},
    {"cuda", "plugins/cuda/xla_cuda_plugin.so"},
    {"tpu", "plugins/tpu/libtpu.so"},
};

std::string environment_name(std::string_view name) {
  std::string out = "ESPALIER_PJRT_";
  for (char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    out += std::isalnum(byte) ? static_cast<char>(std::toupper(byte)) : '_';
  }
  return out;
}

bool is_path(std::string_view name) {
  return name.find('/') != std::string_view::npos || name.ends_with(".so");
}

struct Registry {
  std::mutex mutex;
  std::map<std::filesystem::path, std::shared_ptr<Plugin>> plugins;
};

// Never destroyed: buffers and events held by other statics may still call into a plugin.
Registry& registry() {
  static auto* instance = new Registry;
  return *instance;
}

}  // namespace

Status check_api_version(ApiVersion version, size_t struct_size, std::string_view origin) {
  if (version.major != PJRT_API_MAJOR) {
    return Failure{
        Code::kFailedPrecondition,
        fmt::format("the plugin '{}' speaks PJRT C API {}.{}, this program {}.{}: the major "
                    "versions must be equal; use a plugin built from an XLA with major version {}",
                    origin, version.major, version.minor, PJRT_API_MAJOR, PJRT_API_MINOR,
                    PJRT_API_MAJOR)};
  }
  constexpr size_t kNeeded = offsetof(PJRT_Api, PJRT_Client_Create) + sizeof(void*);
  if (struct_size < kNeeded) {
    return Failure{Code::kFailedPrecondition,
                   fmt::format("the plugin '{}' (PJRT C API {}.{}) has a function table of {} "
                               "bytes, at least {} are needed; use another plugin",
                               origin, version.major, version.minor, struct_size, kNeeded)};
  }
  return {};
}

Result<std::filesystem::path> plugin_path(std::string_view name_or_path) {
  std::filesystem::path path;
  std::string source;
  if (is_path(name_or_path)) {
    path = name_or_path;
  } else if (std::string variable = environment_name(name_or_path);
             const char* value = std::getenv(variable.c_str())) {
    path = value;
    source = fmt::format(" (from the environment variable {})", variable);
  } else {
    for (const auto& [name, relative] : kKnownPlugins) {
      if (name != name_or_path) continue;
      auto found = find_resource(relative);
      if (found) return found;
      std::string searched;
      for (const auto& folder : resource_folders()) searched += "\n  " + folder.string();
      return Failure{
          Code::kNotFound,
          fmt::format("no file '{}' for the plugin '{}': run ./dev setup{} in the source tree, set "
                      "{} to the plugin's file, or give its path; searched:{}",
                      relative, name, name == "cpu" ? "" : fmt::format(" --{}", name), variable,
                      searched)};
    }
    return Failure{Code::kInvalidArgument,
                   fmt::format("unknown plugin '{}'; give cpu, cuda, tpu, the path of a shared "
                               "library, or set {} to one",
                               name_or_path, variable)};
  }
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) {
    return Failure{Code::kNotFound, fmt::format("no plugin at '{}'{}; give the path of a PJRT "
                                                "plugin's shared library, or cpu, cuda or tpu",
                                                path.string(), source)};
  }
  return path;
}

Result<std::shared_ptr<Plugin>> Plugin::load(std::string_view name_or_path) {
  ESPALIER_ASSIGN(auto found, plugin_path(name_or_path));
  std::error_code error;
  std::filesystem::path path = std::filesystem::canonical(found, error);
  if (error) path = found;

  const std::lock_guard lock(registry().mutex);
  auto& plugins = registry().plugins;
  if (auto it = plugins.find(path); it != plugins.end()) return it->second;

  setenv("TF_CPP_MIN_LOG_LEVEL", "2", /*overwrite=*/0);
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return Failure{Code::kInvalidArgument,
                   fmt::format("cannot load the plugin '{}': {}", path.string(), dlerror())};
  }
  void* symbol = dlsym(library, "GetPjrtApi");
  if (symbol == nullptr) {
    // Only a library that is no plugin is closed: XLA's own must stay until the process ends.
    dlclose(library);
    return Failure{Code::kInvalidArgument,
                   fmt::format("'{}' is not a PJRT plugin: it has no function GetPjrtApi; give the "
                               "path of a plugin such as pjrt_c_api_cpu_plugin.so",
                               path.string())};
  }
  const auto* api = reinterpret_cast<const PJRT_Api* (*)()>(symbol)();
  ESPALIER_ASSIGN(auto plugin, from_api(api, path.string()));
  plugins.emplace(path, plugin);
  return plugin;
}

Result<std::shared_ptr<Plugin>> Plugin::from_api(const PJRT_Api* api, std::string_view origin) {
  constexpr size_t kHeader = offsetof(PJRT_Api, pjrt_api_version) + sizeof(PJRT_Api_Version);
  if (api == nullptr || api->struct_size < kHeader) {
    return Failure{Code::kInvalidArgument,
                   fmt::format("the plugin '{}' returned no function table from GetPjrtApi; use "
                               "another plugin",
                               origin)};
  }
  const ApiVersion version{api->pjrt_api_version.major_version,
                           api->pjrt_api_version.minor_version};
  ESPALIER_TRY(check_api_version(version, api->struct_size, origin));
  // The constructor is private, so make_shared cannot be used.
  std::shared_ptr<Plugin> plugin(new Plugin(api, std::filesystem::path(origin), version));
  if (!has_function<&PJRT_Api::PJRT_Error_Message>(*api) ||
      !has_function<&PJRT_Api::PJRT_Error_GetCode>(*api) ||
      !has_function<&PJRT_Api::PJRT_Error_Destroy>(*api)) {
    return missing_function(*plugin, "PJRT_Error_Message, _GetCode or _Destroy");
  }

  ESPALIER_PJRT_STRUCT(PJRT_Plugin_Initialize_Args, initialize);
  if (auto status = ESPALIER_PJRT_CALL(*plugin, PJRT_Plugin_Initialize, initialize); !status) {
    return with_context(fmt::format("cannot initialize the plugin '{}'", origin), status.failure());
  }
  ESPALIER_PJRT_STRUCT(PJRT_Plugin_Attributes_Args, attributes);
  if (ESPALIER_PJRT_CALL(*plugin, PJRT_Plugin_Attributes, attributes)) {
    plugin->attributes_ = from_pjrt({attributes.attributes, attributes.num_attributes});
  }
  return plugin;
}

std::string Plugin::fingerprint() const {
  std::string out = fmt::format("pjrt {}.{}", version_.major, version_.minor);
  for (const auto& [name, value] : attributes_)
    out += fmt::format(";{}={}", name, to_string(value));
  std::error_code error;
  const auto size = std::filesystem::file_size(path_, error);
  if (!error) out += fmt::format(";size={}", size);
  const auto time = std::filesystem::last_write_time(path_, error);
  if (!error) out += fmt::format(";mtime={}", time.time_since_epoch().count());
  return out;
}

const PJRT_Extension_Base* Plugin::extension(int type) const {
  for (const auto* each = api_->extension_start; each != nullptr; each = each->next) {
    if (static_cast<int>(each->type) == type) return each;
  }
  return nullptr;
}

}  // namespace espalier
