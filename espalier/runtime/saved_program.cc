#include "espalier/runtime/saved_program.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "espalier/base/file.h"
#include "espalier/base/sha256.h"
#include "espalier/runtime/program_cache.h"

namespace espalier {
namespace {

constexpr const char* kFormat = "espalier-program-1";

using Member = std::string SavedProgram::*;
constexpr std::pair<const char*, Member> kMembers[] = {
    {"name", &SavedProgram::name},     {"target", &SavedProgram::target},
    {"digest", &SavedProgram::digest}, {"platform", &SavedProgram::platform},
    {"mesh", &SavedProgram::mesh},     {"plugin", &SavedProgram::plugin},
    {"host", &SavedProgram::host},
};

std::string host_identity(std::string_view platform) {
  return platform == "cpu" ? sha256_hex(host_cpu_features()) : "";
}

}  // namespace

Status SavedProgram::save(const std::filesystem::path& path) const {
  nlohmann::ordered_json header = {{"format", kFormat}};
  for (const auto& [key, member] : kMembers) header[key] = this->*member;
  header["sha256"] = sha256_hex(bytes);
  if (const auto folder = path.parent_path(); !folder.empty()) ESPALIER_TRY(make_folders(folder));
  ESPALIER_ASSIGN(AtomicFile file, AtomicFile::create(path));
  ESPALIER_TRY(file.write(header.dump() + "\n"));
  ESPALIER_TRY(file.write(bytes));
  return file.commit();
}

Result<SavedProgram> SavedProgram::load(const std::filesystem::path& path) {
  ESPALIER_ASSIGN(const std::string content, read_file(path));
  const size_t end = content.find('\n');
  const auto header = nlohmann::json::parse(content.substr(0, end), nullptr, false);
  if (end == std::string::npos || !header.is_object() || header.value("format", "") != kFormat) {
    return Failure{Code::kInvalidArgument,
                   fmt::format("'{}' holds no compiled program of this version; make one with "
                               "espalier compile RECIPE --save FILE",
                               path.string())};
  }
  SavedProgram out;
  for (const auto& [key, member] : kMembers) out.*member = header.value(key, "");
  out.bytes = content.substr(end + 1);
  if (sha256_hex(out.bytes) != header.value("sha256", "")) {
    return Failure{Code::kDataLoss, fmt::format("the compiled program in '{}' is damaged: its "
                                                "bytes differ from their digest; compile it again",
                                                path.string())};
  }
  return out;
}

std::string plugin_identity(const Plugin& plugin) {
  std::string out =
      fmt::format("PJRT {}.{}", plugin.api_version().major, plugin.api_version().minor);
  for (const auto& [name, value] : plugin.attributes()) {
    out += fmt::format("; {} {}", name, to_string(value));
  }
  return out;
}

Result<SavedProgram> make_saved(const Executable& executable, const Plugin& plugin,
                                std::string_view platform, const Mesh& mesh, std::string digest) {
  SavedProgram out;
  ESPALIER_ASSIGN(out.bytes, executable.serialize());
  out.digest = std::move(digest);
  out.platform = platform;
  out.mesh = mesh.to_string();
  out.plugin = plugin_identity(plugin);
  out.host = host_identity(platform);
  return out;
}

Status check_saved(const SavedProgram& saved, const Plugin& plugin, std::string_view platform,
                   const Mesh& mesh, std::string_view digest) {
  const auto differs = [&](std::string_view what, std::string_view theirs, std::string_view ours) {
    return Failure{Code::kInvalidArgument,
                   fmt::format("the compiled program '{}' is for {} {}, but here is {}; compile it "
                               "again with espalier compile RECIPE --save FILE",
                               saved.name, what, theirs, ours)};
  };
  if (saved.platform != platform) return differs("the platform", saved.platform, platform);
  if (saved.mesh != mesh.to_string()) return differs("the mesh", saved.mesh, mesh.to_string());
  if (const std::string ours = plugin_identity(plugin); saved.plugin != ours) {
    return differs("the plugin", saved.plugin, ours);
  }
  if (saved.host != host_identity(platform)) {
    return differs("a processor", "with other instruction sets", "this one");
  }
  if (saved.digest != digest) {
    return Failure{Code::kInvalidArgument,
                   fmt::format("the compiled program '{}' (for {}) is another one than this recipe "
                               "makes with this version of the program and these --set; compile it "
                               "again with espalier compile RECIPE --save FILE",
                               saved.name, saved.target)};
  }
  return {};
}

}  // namespace espalier
