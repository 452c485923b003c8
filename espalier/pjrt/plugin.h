// Plugin: a shared library that speaks the PJRT C API, loaded at run time.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "espalier/base/error.h"
#include "espalier/pjrt/named_value.h"

struct PJRT_Api;
struct PJRT_Extension_Base;

namespace espalier {

struct ApiVersion {
  int major = 0;
  int minor = 0;
};

// Whether a plugin's table of functions can be used by this build. The major version must be ours;
// an older or newer minor one is accepted, since every call looks whether its function lies within
// the table. `origin` names the plugin in the message.
Status check_api_version(ApiVersion version, size_t struct_size, std::string_view origin);

// The file of a plugin's name. `cpu`, `cuda` and `tpu` (any name, in fact) are looked up in the
// environment variable ESPALIER_PJRT_<NAME>; the three known ones then among Espalier's resources
// (plugins/cpu/pjrt_c_api_cpu_plugin.so, ...). What holds a '/' or ends in ".so" is a path.
Result<std::filesystem::path> plugin_path(std::string_view name_or_path);

// Loaded once and never unloaded: a second load() of the same file gives the same object, and
// pointers to it stay valid until the process ends. All members are thread-safe; load() changes the
// environment (below), so the first call should come before other threads read it.
class Plugin {
 public:
  // Finds (plugin_path), opens, checks and initializes. Sets TF_CPP_MIN_LOG_LEVEL=2 when unset,
  // which keeps XLA's chatter off standard error. A TPU plugin asks a metadata server on
  // initialization unless TPU_SKIP_MDS_QUERY=1 is set.
  // kNotFound: no such name or file; kInvalidArgument: not a plugin; kFailedPrecondition: another
  // major version.
  static Result<std::shared_ptr<Plugin>> load(std::string_view name_or_path);

  // A plugin from a table of functions that is already in the process (one linked statically).
  // `api` must stay valid for good. `origin` stands for the path in messages.
  static Result<std::shared_ptr<Plugin>> from_api(const PJRT_Api* api, std::string_view origin);

  const std::filesystem::path& path() const { return path_; }
  ApiVersion api_version() const { return version_; }
  // What the plugin says of itself, e.g. xla_version, stablehlo_current_version; may be empty.
  const NamedValues& attributes() const { return attributes_; }
  // Changes whenever the plugin does: file size and time, API version, attributes. For cache keys.
  std::string fingerprint() const;

  // The extension of a PJRT_Extension_Type, or null. Owned by the plugin.
  const PJRT_Extension_Base* extension(int type) const;
  const PJRT_Api* api() const { return api_; }

 private:
  Plugin(const PJRT_Api* api, std::filesystem::path path, ApiVersion version)
      : api_(api), path_(std::move(path)), version_(version) {}

  const PJRT_Api* api_;
  std::filesystem::path path_;
  ApiVersion version_;
  NamedValues attributes_;
};

}  // namespace espalier
