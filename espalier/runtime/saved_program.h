// SavedProgram: a compiled program in a file of its own, for another process or machine to load.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "espalier/mesh/mesh.h"
#include "espalier/pjrt/executable.h"
#include "espalier/pjrt/plugin.h"

namespace espalier {

// The file: a line of JSON ({"format": "espalier-program-1", the members below but `bytes`,
// "sha256": of the bytes}), then the bytes.
struct SavedProgram {
  std::string name;      // of the program, for people
  std::string target;    // what it was compiled for, for people: "v5e:2x4"
  std::string digest;    // program_digest of its module
  std::string platform;  // "cpu", "cuda", "tpu"
  std::string mesh;      // Mesh::to_string()
  std::string plugin;    // plugin_identity of the plugin that compiled it
  std::string host;      // on CPU the SHA-256 of the processor's features, else empty
  std::string bytes;     // as the plugin serializes it

  Status save(const std::filesystem::path& path) const;
  // kDataLoss where the file is damaged, kInvalidArgument where it is something else.
  static Result<SavedProgram> load(const std::filesystem::path& path);
};

// Version and attributes of a plugin: programs are for the plugin that made them.
std::string plugin_identity(const Plugin& plugin);

Result<SavedProgram> make_saved(const Executable& executable, const Plugin& plugin,
                                std::string_view platform, const Mesh& mesh, std::string digest);

// Whether it is this program, for this mesh, plugin and processor; kInvalidArgument says what
// differs.
Status check_saved(const SavedProgram& saved, const Plugin& plugin, std::string_view platform,
                   const Mesh& mesh, std::string_view digest);

}  // namespace espalier
