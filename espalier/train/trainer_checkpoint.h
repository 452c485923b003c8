// A run's checkpoints: whether one fits the run, and writing one.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "espalier/checkpoint/names.h"
#include "espalier/train/setup.h"

namespace espalier {

// Whether the checkpoint holds what the state consists of, and nothing else.
Status check_state_names(const CheckpointReader& reader, const StateLayout& layout);

// Writes the state after `step` steps below `folder` and makes it the newest.
Result<CommittedCheckpoint> write_checkpoint(const std::filesystem::path& folder, int64_t step,
                                             const StateLayout& layout, TrainState& state,
                                             const nlohmann::json& metadata,
                                             const CommitOptions& options);

}  // namespace espalier
