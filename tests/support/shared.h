// The folder of references made by other programs, which a user's clone does not have.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <optional>

namespace espalier {

// A file below $ESPALIER_SHARED, or below ../shared beside the repository; nothing where absent.
inline std::optional<std::filesystem::path> shared_file(const std::filesystem::path& name) {
  const char* folder = std::getenv("ESPALIER_SHARED");
  const std::filesystem::path root =
      folder != nullptr ? std::filesystem::path(folder)
                        : std::filesystem::path(ESPALIER_SOURCE_DIR) / ".." / "shared";
  if (!std::filesystem::exists(root / name)) return std::nullopt;
  return root / name;
}

}  // namespace espalier
