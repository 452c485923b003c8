#include "espalier/train/run_position.h"

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

namespace espalier {

nlohmann::json to_json(const RunPosition& p) {
  nlohmann::json out = {
      {"step", p.step},
      {"loader", {{"seed", p.loader.seed}, {"epoch", p.loader.epoch}, {"index", p.loader.index}}},
      {"loss_window", {{"sum", p.loss_sum}, {"count", p.loss_count}}},
      {"skipped_steps", p.skipped_steps}};
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
    p.skipped_steps = json.value("skipped_steps", int64_t{0});
    if (json.contains("best_val_loss")) p.best_val_loss = json.at("best_val_loss").get<double>();
    return p;
  } catch (const nlohmann::json::exception& error) {
    return Failure{Code::kDataLoss, "'" + (folder / "metadata.json").string() +
                                        "' is not a training checkpoint's: " + error.what()};
  }
}

nlohmann::json data_identity(const Dataset& dataset, const DataConfig& config) {
  return {{"sha256", dataset.identity()}, {"rows", dataset.train()->rows()},
          {"seq_len", config.seq_len},    {"sampling", config.sampling},
          {"shuffle", config.shuffle},    {"seed", config.seed}};
}

Status check_same_data(const nlohmann::json& metadata, const nlohmann::json& now) {
  const auto saved = metadata.find("data");
  if (saved == metadata.end()) {
    return Failure{Code::kDataLoss, "the checkpoint does not say what data its run reads"};
  }
  for (const auto& [key, value] : now.items()) {
    // Checkpoints of before there was a choice do not name it.
    const nlohmann::json otherwise = key == "sampling" ? "epoch" : nlohmann::json();
    const nlohmann::json before = saved->value(key, otherwise);
    if (before == value) continue;
    const std::string what = key == "sha256" ? "the tokenized text" : "data." + key;
    return Failure{Code::kInvalidArgument,
                   what + " was " + before.dump() + " when the run was saved and is " +
                       value.dump() +
                       " now; resume with the same data settings, or start a new run"};
  }
  return {};
}

namespace {

// "key = value" lines of [model] that say what function the parameters are of.
std::map<std::string, std::string> model_keys(const ModelConfig& model) {
  RecipeWriter writer;
  model.write(writer);
  std::map<std::string, std::string> out;
  std::istringstream lines(writer.text());
  for (std::string line; std::getline(lines, line);) {
    const size_t at = line.find(" = ");
    if (at == std::string::npos || line.starts_with('#')) continue;
    const std::string key = line.substr(0, at);
    if (key == "attention" || key == "layers" || key == "dropout" || key == "preset") continue;
    out[key] = line.substr(at + 3);
  }
  return out;
}

}  // namespace

Status check_same_model(std::string_view recipe, const std::string& where, const RunConfig& now) {
  ESPALIER_ASSIGN(const RunConfig before, parse_run_config(recipe, where));
  const auto was = model_keys(*before.model), is = model_keys(*now.model);
  const auto value = [](const std::map<std::string, std::string>& keys, const std::string& key) {
    const auto found = keys.find(key);
    return found == keys.end() ? std::string("not there") : found->second;
  };
  for (const auto* keys : {&is, &was}) {
    for (const auto& [key, unused] : *keys) {
      if (value(was, key) == value(is, key)) continue;
      return Failure{Code::kInvalidArgument, "model." + key + " was " + value(was, key) +
                                                 " when the parameters were " + "trained (" +
                                                 where + ") and is " + value(is, key) +
                                                 " now; give the model as it was"};
    }
  }
  return {};
}

}  // namespace espalier
