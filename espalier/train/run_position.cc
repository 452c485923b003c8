#include "espalier/train/run_position.h"

#include <cmath>
#include <nlohmann/json.hpp>

namespace espalier {

nlohmann::json to_json(const RunPosition& p) {
  nlohmann::json out = {
      {"step", p.step},
      {"loader", {{"seed", p.loader.seed}, {"epoch", p.loader.epoch}, {"index", p.loader.index}}},
      {"loss_window", {{"sum", p.loss_sum}, {"count", p.loss_count}}}};
  if (p.best_val_loss) out["best_val_loss"] = *p.best_val_loss;
  return out;
}

Result<RunPosition> position_from_json(const nlohmann::json& json,
                                       const std::filesystem::path& folder) {
  try {
    RunPosition p;
    p.step = json.at("step");
    const auto& loader = json.at("loader");
    p.loader = {loader.at("seed"), loader.at("epoch"), loader.at("index")};
    const auto& sum = json.at("loss_window").at("sum");
    // JSON has no NaN, which is written as null.
    p.loss_sum = sum.is_null() ? std::nan("") : sum.get<double>();
    p.loss_count = json.at("loss_window").at("count");
    if (json.contains("best_val_loss")) p.best_val_loss = json.at("best_val_loss").get<double>();
    return p;
  } catch (const nlohmann::json::exception& error) {
    return Failure{Code::kDataLoss, "'" + (folder / "metadata.json").string() +
                                        "' is not a training checkpoint's: " + error.what()};
  }
}

}  // namespace espalier
