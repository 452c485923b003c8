#include "espalier/base/locate.h"

#include <cstdlib>
#include <string>
#include <system_error>

namespace espalier {
namespace fs = std::filesystem;

std::vector<fs::path> resource_folders() {
  std::vector<fs::path> folders;
  if (const char* deps = std::getenv("ESPALIER_DEPS"); deps != nullptr && *deps != '\0') {
    folders.emplace_back(deps);
  }
  std::error_code error;
  // Links are resolved, so that a program linked into another folder still finds its own files.
  if (const fs::path program = fs::read_symlink("/proc/self/exe", error); !error) {
    const fs::path above = program.parent_path().parent_path();
    folders.push_back(above / "share" / "espalier");
    folders.push_back(above / "lib" / "espalier");
    folders.push_back(above.parent_path() / ".deps");
  }
  folders.emplace_back(ESPALIER_DEPS);
  return folders;
}

Result<fs::path> find_resource(std::string_view name) {
  if (name.empty() || fs::path(name).is_absolute()) {
    return Failure{Code::kInvalidArgument,
                   "a resource is named by a relative path such as text/gpt2.tiktoken, got '" +
                       std::string(name) + "'"};
  }
  std::string searched;
  for (const fs::path& folder : resource_folders()) {
    const fs::path candidate = folder / name;
    std::error_code error;
    if (fs::is_regular_file(candidate, error)) {
      fs::path absolute = fs::absolute(candidate, error);
      return error ? candidate : absolute.lexically_normal();
    }
    searched += "\n  " + folder.string();
  }
  return Failure{Code::kNotFound,
                 "cannot find '" + std::string(name) +
                     "': run ./dev setup in the source tree, or set ESPALIER_DEPS to the folder "
                     "that has it; searched:" +
                     searched};
}

}  // namespace espalier
