#include "espalier/train/pretrained.h"

#include <algorithm>
#include <map>

#include "espalier/checkpoint/arrays.h"
#include "espalier/checkpoint/names.h"
#include "espalier/checkpoint/rotary_pairs.h"
#include "espalier/checkpoint/weights_folder.h"
#include "espalier/data/published_weights.h"
#include "espalier/nn/layout.h"
#include "espalier/train/state.h"

namespace espalier {
namespace fs = std::filesystem;
namespace {

// Held in memory at once while comparing.
constexpr int64_t kCompareBytes = int64_t{16} << 20;

// Ours to the source's, by the kind of names that most of the tensors have.
std::map<std::string, std::string> names_in(const TensorSource& source, const ModelConfig& config,
                                            const std::vector<std::string>& params) {
  std::map<std::string, std::string> best;
  size_t most = 0;
  const size_t kinds = params.empty() ? 0 : config.hf_names(params[0]).size();
  for (size_t kind = 0; kind < kinds; ++kind) {
    std::map<std::string, std::string> names;
    size_t found = 0;
    for (const std::string& param : params) {
      const std::string name = config.hf_names(param).at(kind);
      if (source.find(name) != nullptr) ++found;
      names.emplace(param, name);
    }
    if (kind > 0 && found <= most) continue;
    most = found;
    best = std::move(names);
  }
  return best;
}

// That two tensors, of which the second is there, hold the same bytes.
Result<bool> equal(const TensorSource& source, const TensorInfo& a, const TensorInfo& b) {
  if (a.dtype != b.dtype || a.dims != b.dims) return false;
  const Dims view = a.dims.empty() ? Dims{1} : a.dims;
  const int64_t row =
      num_elements(view) / std::max<int64_t>(view[0], 1) * static_cast<int64_t>(byte_size(a.dtype));
  const int64_t rows = std::max<int64_t>(1, kCompareBytes / std::max<int64_t>(row, 1));
  Dims offset(view.size(), 0), shape = view;
  std::vector<std::byte> left, right;
  for (; offset[0] < view[0]; offset[0] += rows) {
    shape[0] = std::min(rows, view[0] - offset[0]);
    left.resize(static_cast<size_t>(shape[0] * row));
    right.resize(left.size());
    ESPALIER_TRY(source.read_view(a.name, view, offset, shape, left));
    ESPALIER_TRY(source.read_view(b.name, view, offset, shape, right));
    if (left != right) return false;
  }
  return true;
}

Status check_copies(const TensorSource& source, const ModelConfig& config) {
  for (const auto& [copy, param] : config.hf_copies()) {
    const TensorInfo *stored = source.find(copy), *original = source.find(param);
    if (stored == nullptr || original == nullptr) continue;
    ESPALIER_ASSIGN(const bool same, equal(source, *stored, *original));
    if (same) continue;
    return Failure{Code::kInvalidArgument,
                   "tensor '" + copy + "' in '" + source.where() + "' differs from '" + param +
                       "', which the model uses in its place; such weights are of another model"};
  }
  return {};
}

}  // namespace

Result<fs::path> pretrained_folder(const std::string& folder_or_name, const fs::path& weights_dir) {
  std::error_code none;
  if (fs::is_directory(folder_or_name, none)) return fs::path(folder_or_name);
  const auto published = published_models();
  const bool known = std::any_of(published.begin(), published.end(),
                                 [&](const auto& model) { return model.name == folder_or_name; });
  if (!known) {
    std::string names;
    for (const PublishedModel& model : published) {
      names += (names.empty() ? "" : ", ") + std::string(model.name);
    }
    return Failure{Code::kNotFound, "there is no folder '" + folder_or_name +
                                        "', and no published model of that name is known; there "
                                        "are " +
                                        names};
  }
  const fs::path folder = weights_dir / folder_or_name;
  if (fs::is_directory(folder, none)) return folder;
  return Failure{Code::kNotFound, "the weights of " + folder_or_name + " are not in '" +
                                      folder.string() + "'; fetch them: espalier prepare weights " +
                                      folder_or_name + " --out " + folder.string()};
}

Result<fs::path> model_description(const fs::path& folder) {
  std::error_code none;
  for (const char* name : {"config.json", "params.json"}) {
    if (fs::exists(folder / name, none)) return folder / name;
  }
  return Failure{Code::kNotFound,
                 "'" + folder.string() +
                     "' has no config.json; --hf takes a folder of Hugging Face's form: "
                     "config.json and model.safetensors"};
}

Result<std::vector<DeviceArray>> load_pretrained(const std::shared_ptr<Runtime>& runtime,
                                                 const ModelConfig& config, const ParamSpecs& specs,
                                                 const ShardingRules& rules,
                                                 const fs::path& folder) {
  ESPALIER_ASSIGN(WeightsFolder opened, WeightsFolder::open(folder));
  const auto files = std::make_shared<const WeightsFolder>(std::move(opened));
  std::vector<StoredArray> stored;
  std::vector<TensorInfo> expected;
  std::vector<std::string> params;
  for (const ParamSpec& spec : specs) {
    stored.push_back(stored_param(spec));
    for (const CheckpointTensor& entry : stored_tensors(stored.back())) {
      expected.push_back(entry.tensor);
      params.push_back(entry.tensor.name);
    }
  }
  const std::map<std::string, std::string> names = names_in(*files, config, params);
  std::map<std::string, int64_t> paired;
  for (const auto& [ours, theirs] : names) {
    if (const int64_t width = config.hf_rotary_pairs(theirs); width > 0) {
      paired.emplace(theirs, width);
    }
  }
  ESPALIER_ASSIGN(
      const RenamedSource source,
      RenamedSource::create(std::make_shared<const RotaryHalves>(files, paired), names));
  ESPALIER_TRY(check_names(source, expected, config.hf_ignored()));
  ESPALIER_TRY(check_copies(source, config));

  const std::vector<ParamLayout> layouts = layout_params(specs, rules, runtime->mesh());
  std::vector<DeviceArray> out;
  for (size_t i = 0; i < specs.size(); ++i) {
    ESPALIER_ASSIGN(DeviceArray array, load_array(source, stored[i], runtime,
                                                  make_layout(layouts[i].type, layouts[i].spec),
                                                  StoredType::kAnyFloat));
    out.push_back(std::move(array));
  }
  return out;
}

}  // namespace espalier
