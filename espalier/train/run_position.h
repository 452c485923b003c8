// RunPosition: the numbers that carry a run from one session to the next, kept in a checkpoint's
// metadata beside its arrays.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>

#include "espalier/data/dataset.h"
#include "espalier/data/loader.h"
#include "espalier/train/config.h"

namespace espalier {

struct RunPosition {
  int64_t step = 0;  // steps done
  LoaderState loader;
  double loss_sum = 0;  // over the steps since the last log line
  int64_t loss_count = 0;
  int64_t skipped_steps = 0;  // of the whole run: their loss or gradient was not finite
  std::optional<double> best_val_loss;
};

// {"step", "loader": {"seed", "epoch", "index"}, "loss_window": {"sum", "count"},
// "skipped_steps"} and, once there was an evaluation, "best_val_loss". Numbers come back exactly.
nlohmann::json to_json(const RunPosition& position);
// kDataLoss, naming the folder, where `json` is not of this form.
Result<RunPosition> position_from_json(const nlohmann::json& json,
                                       const std::filesystem::path& folder);

// What must be the same when a run goes on, since the loader's position means nothing in other
// rows: "sha256" of the tokens (Dataset::identity), "rows", "seq_len", "sampling", "shuffle",
// "seed".
nlohmann::json data_identity(const Dataset& dataset, const DataConfig& config);
// kInvalidArgument naming the first difference and both values. A checkpoint without a "data"
// entry is of no training run: kDataLoss.
Status check_same_data(const nlohmann::json& metadata, const nlohmann::json& now);

// What must be the same when parameters are read into a model, since shapes do not show all of it:
// every key of [model] but attention, layers, dropout and preset. kInvalidArgument names the first
// key that differs and both values; `recipe` is what the parameters were trained by, `where` says
// where it stands.
Status check_same_model(std::string_view recipe, const std::string& where, const RunConfig& now);

}  // namespace espalier
