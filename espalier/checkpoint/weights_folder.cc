#include "espalier/checkpoint/weights_folder.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

namespace espalier {
namespace fs = std::filesystem;
namespace {

using Json = nlohmann::json;
using WeightMap = std::map<std::string, std::string>;  // tensor -> file

constexpr char kSingle[] = "model.safetensors", kIndex[] = "model.safetensors.index.json";

Failure damaged(const fs::path& index, const std::string& what) {
  return {Code::kDataLoss, "'" + index.string() + "' " + what + "; get the files again"};
}

// The first few, quoted.
std::string quoted(const std::vector<std::string>& names) {
  constexpr size_t kShown = 5;
  std::string out;
  for (size_t i = 0; i < std::min(kShown, names.size()); ++i) {
    out += (i > 0 ? ", '" : "'") + names[i] + "'";
  }
  if (names.size() > kShown) out += " and " + std::to_string(names.size() - kShown) + " more";
  return out;
}

Result<WeightMap> read_weight_map(const fs::path& index) {
  ESPALIER_ASSIGN(const std::string text, read_file(index));
  std::set<std::string> tensors;
  std::string table, repeated;
  const auto watch = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (event != Json::parse_event_t::key) return true;
    if (depth == 1) table = parsed.get<std::string>();
    if (depth == 2 && table == "weight_map" && !tensors.insert(parsed.get<std::string>()).second) {
      repeated = parsed.get<std::string>();
    }
    return true;
  };
  WeightMap out;
  try {
    out = Json::parse(text, watch).at("weight_map").get<WeightMap>();
  } catch (const Json::exception& error) {
    return damaged(index, std::string("is no index of weights: ") + error.what());
  }
  if (!repeated.empty()) return damaged(index, "names tensor '" + repeated + "' twice");
  for (const auto& [tensor, file] : out) {
    // Files lie in the folder itself: an index must not lead elsewhere.
    if (file.empty() || fs::path(file).filename() != file) {
      return damaged(index, "puts tensor '" + tensor + "' in '" + file +
                                "', which is no name of a file in its folder");
    }
  }
  return out;
}

Failure no_weights(const fs::path& folder) {
  std::error_code ignored;
  if (!fs::exists(folder, ignored)) {
    return {Code::kNotFound, "no folder '" + folder.string() +
                                 "'; give one with a model in Hugging Face's format, or download "
                                 "one: espalier prepare weights gpt2 --out '" +
                                 folder.string() + "'"};
  }
  if (!fs::is_directory(folder, ignored)) {
    return {Code::kInvalidArgument, "'" + folder.string() +
                                        "' is a file; give the folder that holds the weights and "
                                        "their config.json"};
  }
  for (const char* pickle : {"pytorch_model.bin", "pytorch_model.bin.index.json"}) {
    if (!fs::exists(folder / pickle, ignored)) continue;
    return {Code::kUnimplemented,
            "'" + folder.string() + "' has its weights in '" + pickle +
                "' only, a Python pickle, which can run any code and is not read here; convert it "
                "where you trust it: python -c \"from transformers import AutoModelForCausalLM as "
                "M; M.from_pretrained('" +
                folder.string() + "').save_pretrained('NEW_FOLDER')\""};
  }
  const fs::path meta = folder / "consolidated.00.pth";
  if (fs::exists(meta, ignored)) {
    return {Code::kUnimplemented,
            "'" + folder.string() + "' has its weights in '" + meta.filename().string() +
                "', a Python pickle, which can run any code and is not read here; take the "
                "safetensors files of the same model in Hugging Face's format"};
  }
  return {Code::kNotFound, "no weights in '" + folder.string() + "': it has neither '" + kSingle +
                               "' nor '" + kIndex +
                               "'; give the folder of a model in Hugging Face's format"};
}

// What the shard lacks, or has beside what the index gives it.
Status compare(const fs::path& index, const WeightMap& map, const std::string& name,
               const SafetensorsFile& shard) {
  std::vector<std::string> absent, extra;
  for (const auto& [tensor, file] : map) {
    if (file == name && shard.find(tensor) == nullptr) absent.push_back(tensor);
  }
  for (const TensorInfo& tensor : shard.tensors()) {
    const auto listed = map.find(tensor.name);
    if (listed == map.end() || listed->second != name) extra.push_back(tensor.name);
  }
  if (!absent.empty()) {
    return damaged(index, "puts " + quoted(absent) + " in '" + name + "', which does not have " +
                              (absent.size() > 1 ? "them" : "it"));
  }
  if (!extra.empty()) {
    return damaged(index, "does not list " + quoted(extra) + " of '" + name + "'");
  }
  return {};
}

}  // namespace

Result<WeightsFolder> WeightsFolder::open(const fs::path& folder) {
  WeightsFolder out(folder);
  std::error_code ignored;
  if (fs::exists(folder / kSingle, ignored)) {
    ESPALIER_ASSIGN(SafetensorsFile file, SafetensorsFile::open(folder / kSingle));
    ESPALIER_TRY(out.files_.add(std::move(file)));
  } else if (fs::exists(folder / kIndex, ignored)) {
    ESPALIER_TRY(out.open_shards());
  } else {
    return no_weights(folder);
  }
  return out;
}

Status WeightsFolder::open_shards() {
  const fs::path index = folder_ / kIndex;
  ESPALIER_ASSIGN(const WeightMap map, read_weight_map(index));
  std::set<std::string> names;
  for (const auto& [tensor, file] : map) names.insert(file);
  std::vector<std::string> missing;
  std::error_code ignored;
  for (const std::string& name : names) {
    if (!fs::exists(folder_ / name, ignored)) missing.push_back(name);
  }
  if (!missing.empty()) {
    return Failure{Code::kNotFound, "'" + index.string() + "' names " + quoted(missing) +
                                        ", missing in '" + folder_.string() +
                                        "'; get all files of the model"};
  }
  for (const std::string& name : names) {
    ESPALIER_ASSIGN(SafetensorsFile shard, SafetensorsFile::open(folder_ / name));
    ESPALIER_TRY(compare(index, map, name, shard));
    ESPALIER_TRY(files_.add(std::move(shard)));
  }
  return {};
}

Status WeightsFolder::read_view(std::string_view name, const Dims& view, const Dims& offset,
                                const Dims& shape, std::span<std::byte> out) const {
  ESPALIER_ASSIGN(const SafetensorsFile* file, files_.holder(name, where()));
  return file->read_view(name, view, offset, shape, out);
}

}  // namespace espalier
