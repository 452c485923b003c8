// The folder that holds a run's checkpoints: which steps are there, its links, and replacing an
// entry so that a crash at any moment leaves the old one or the new one, whole.
//
//   ROOT/1000/               a checkpoint (see store.h)
//   ROOT/latest, ROOT/best   symbolic links to a step's folder, relative
//   ROOT/.1000.PID.tmp       being written or removed; left over when a process was killed
//   ROOT/.1000.PID.old       the former checkpoint 1000, moved aside for an instant
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string_view>

#include "espalier/base/error.h"

namespace espalier {

// A step's number written in plain decimal digits, nothing else.
std::optional<int64_t> parse_step(std::string_view text);

// The folder of every step, whole or not, in rising order. A step moved aside (".old") counts where
// nothing has taken its place. kNotFound when the root does not exist.
Result<std::map<int64_t, std::filesystem::path>> list_steps(const std::filesystem::path& root);

// The step that a link names; nothing when the link is missing or names no step.
std::optional<int64_t> linked_step(const std::filesystem::path& root, std::string_view link);

// Points ROOT/LINK to a step, replacing whatever was there in one rename.
Status set_link(const std::filesystem::path& root, std::string_view link, int64_t step);

// The name of an entry of this process: ROOT/.NAME.PID.SUFFIX.
std::filesystem::path side_path(const std::filesystem::path& root, std::string_view name,
                                std::string_view suffix);

// Moves ROOT/.NAME.PID.tmp to ROOT/NAME and syncs ROOT; what was there before is then removed.
// Where the file system can exchange two names (`exchange`), there is no moment without NAME;
// elsewhere the old entry is ".old" in between.
Status move_into_place(const std::filesystem::path& root, std::string_view name,
                       bool exchange = true);

// Removes what killed processes left, and moves an ".old" step back where it is the only one.
// Requires that nobody is writing below the root.
Status clean_left_overs(const std::filesystem::path& root);

// Deletes all but the `keep` newest steps up to `newest`, apart from those that `latest` and `best`
// name. Later steps (left by a run that was rewound) stay until the run has passed them.
Status prune_steps(const std::filesystem::path& root, int64_t newest, int keep);

}  // namespace espalier
