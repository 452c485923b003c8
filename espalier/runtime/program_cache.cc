#include "espalier/runtime/program_cache.h"

#include <algorithm>
#include <fstream>
#include <vector>

#include "espalier/base/file.h"
#include "espalier/base/sha256.h"

namespace espalier {
namespace fs = std::filesystem;

fs::path ProgramCache::path(std::string_view key) const {
  return folder_ / (std::string(key) + ".pjrt");
}

std::optional<std::string> ProgramCache::load(std::string_view key) const {
  Result<std::string> content = read_file(path(key));
  if (!content.ok() || content->size() < 65 || (*content)[64] != '\n') return std::nullopt;
  std::string program = content->substr(65);
  if (sha256_hex(program) != std::string_view(*content).substr(0, 64)) return std::nullopt;
  std::error_code ignored;  // the time of last use only orders removal
  fs::last_write_time(path(key), fs::file_time_type::clock::now(), ignored);
  return program;
}

Status ProgramCache::store(std::string_view key, std::string_view program) const {
  ESPALIER_TRY(make_folders(folder_));
  ESPALIER_ASSIGN(AtomicFile file, AtomicFile::create(path(key)));
  ESPALIER_TRY(file.write(sha256_hex(program) + "\n"));
  ESPALIER_TRY(file.write(program));
  ESPALIER_TRY(file.commit());
  prune();
  return {};
}

void ProgramCache::prune() const {
  struct Entry {
    fs::file_time_type used;
    uint64_t bytes;
    fs::path path;
  };
  std::vector<Entry> entries;
  uint64_t total = 0;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder_, error)) {
    if (entry.path().extension() != ".pjrt") continue;
    Entry e{entry.last_write_time(error), entry.file_size(error), entry.path()};
    if (error) continue;  // another process removed it
    total += e.bytes;
    entries.push_back(std::move(e));
  }
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.used < b.used; });
  for (const Entry& e : entries) {
    if (total <= max_bytes_) return;
    fs::remove(e.path, error);
    total -= e.bytes;
  }
}

std::string host_cpu_features() {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line)) {
    if (line.starts_with("flags") || line.starts_with("Features")) return line;
  }
  return "";
}

}  // namespace espalier
