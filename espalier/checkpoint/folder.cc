#include "espalier/checkpoint/folder.h"

#include <fcntl.h>
#include <stdio.h>  // renameat2
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <string>
#include <vector>

#include "espalier/base/file.h"

namespace espalier {
namespace fs = std::filesystem;
namespace {

Failure failure_of(std::string_view what, const fs::path& path, const std::error_code& error) {
  errno = error.value();
  return errno_failure(what, path);
}

// Names of a folder's entries that begin with '.' and end with `suffix`, or all that do not begin
// with '.' when it is empty.
Result<std::vector<std::string>> entries(const fs::path& root, std::string_view suffix) {
  std::vector<std::string> out;
  std::error_code error;
  fs::directory_iterator it(root, error);
  if (error) return failure_of("list", root, error);
  for (; it != fs::directory_iterator(); it.increment(error)) {
    std::string name = it->path().filename().string();
    const bool hidden = name[0] == '.';
    if (suffix.empty() ? !hidden : hidden && std::string_view(name).ends_with(suffix)) {
      out.push_back(std::move(name));
    }
  }
  if (error) return failure_of("list", root, error);
  return out;
}

// ".1000.PID.old" -> 1000
std::optional<int64_t> step_of_old(std::string_view name) {
  name.remove_prefix(1);
  return parse_step(name.substr(0, name.find('.')));
}

Status remove_tree(const fs::path& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (error) return failure_of("remove", path, error);
  return {};
}

Status rename_entry(const fs::path& from, const fs::path& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) return errno_failure("rename to", to);
  return {};
}

}  // namespace

std::optional<int64_t> parse_step(std::string_view text) {
  int64_t step = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), step);
  if (error != std::errc() || end != text.data() + text.size() || step < 0) return std::nullopt;
  if (std::to_string(step) != text) return std::nullopt;  // "007" is no name of ours
  return step;
}

Result<std::map<int64_t, fs::path>> list_steps(const fs::path& root) {
  std::map<int64_t, fs::path> out;
  ESPALIER_ASSIGN(const auto names, entries(root, ""));
  for (const std::string& name : names) {
    if (const auto step = parse_step(name)) out.emplace(*step, root / name);
  }
  ESPALIER_ASSIGN(const auto aside, entries(root, ".old"));
  for (const std::string& name : aside) {
    if (const auto step = step_of_old(name)) out.emplace(*step, root / name);
  }
  return out;
}

std::optional<int64_t> linked_step(const fs::path& root, std::string_view link) {
  std::error_code error;
  const fs::path target = fs::read_symlink(root / link, error);
  if (error) return std::nullopt;
  return parse_step(target.string());
}

fs::path side_path(const fs::path& root, std::string_view name, std::string_view suffix) {
  return root /
         ("." + std::string(name) + "." + std::to_string(::getpid()) + "." + std::string(suffix));
}

Status set_link(const fs::path& root, std::string_view link, int64_t step) {
  const fs::path temporary = side_path(root, link, "tmp");
  ESPALIER_TRY(remove_tree(temporary));
  if (::symlink(std::to_string(step).c_str(), temporary.c_str()) != 0) {
    return errno_failure("create the link", root / link);
  }
  return move_into_place(root, link);
}

Status move_into_place(const fs::path& root, std::string_view name, bool exchange) {
  const fs::path from = side_path(root, name, "tmp"), to = root / name;
  if (::rename(from.c_str(), to.c_str()) == 0) return sync_folder(root);
  if (errno != ENOTEMPTY && errno != EEXIST && errno != EISDIR && errno != ENOTDIR) {
    return errno_failure("rename to", to);
  }
  // A folder with content cannot be renamed over.
  fs::path former = from;
  if (!exchange ||
      ::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_EXCHANGE) != 0) {
    former = side_path(root, name, "old");
    ESPALIER_TRY(remove_tree(former));
    ESPALIER_TRY(rename_entry(to, former));
    if (const Status moved = rename_entry(from, to); !moved) {
      ::rename(former.c_str(), to.c_str());
      return moved;
    }
  }
  ESPALIER_TRY(sync_folder(root));
  // The new entry is safe; what cannot be removed now is a left-over for the next writer.
  std::error_code ignored;
  fs::remove_all(former, ignored);
  return {};
}

Status clean_left_overs(const fs::path& root) {
  ESPALIER_ASSIGN(const auto aside, entries(root, ".old"));
  for (const std::string& name : aside) {
    const auto step = step_of_old(name);
    std::error_code error;
    if (step && !fs::exists(fs::symlink_status(root / std::to_string(*step), error))) {
      ESPALIER_TRY(rename_entry(root / name, root / std::to_string(*step)));
    } else {
      ESPALIER_TRY(remove_tree(root / name));
    }
  }
  ESPALIER_ASSIGN(const auto temporaries, entries(root, ".tmp"));
  for (const std::string& name : temporaries) ESPALIER_TRY(remove_tree(root / name));
  return {};
}

Status prune_steps(const fs::path& root, int64_t newest, int keep) {
  ESPALIER_ASSIGN(auto steps, list_steps(root));
  steps.erase(steps.upper_bound(newest), steps.end());
  const auto latest = linked_step(root, "latest"), best = linked_step(root, "best");
  int kept = 0;
  for (auto it = steps.rbegin(); it != steps.rend(); ++it) {
    if (kept++ < keep || it->first == latest || it->first == best) continue;
    // Renamed first: a half-deleted checkpoint must not look like a damaged one.
    const fs::path doomed = side_path(root, std::to_string(it->first), "tmp");
    ESPALIER_TRY(rename_entry(it->second, doomed));
    ESPALIER_TRY(remove_tree(doomed));
  }
  return sync_folder(root);
}

}  // namespace espalier
