#include "cli/loaded_model.h"

#include "espalier/base/file.h"
#include "espalier/train/state.h"

namespace espalier {

std::vector<LayoutPtr> LoadedModel::layouts() const {
  std::vector<LayoutPtr> out;
  for (const DeviceArray& array : params) out.push_back(array.layout());
  return out;
}

std::vector<DeviceArray*> LoadedModel::pointers() {
  std::vector<DeviceArray*> out;
  for (DeviceArray& array : params) out.push_back(&array);
  return out;
}

Result<LoadedModel> load_run(const std::filesystem::path& run, const std::string& which,
                             const std::vector<std::string>& overrides) {
  std::error_code none;
  if (!std::filesystem::exists(run / "config.toml", none)) {
    return Failure{Code::kNotFound, "there is no run in '" + run.string() +
                                        "' (it has no config.toml); give a run's folder, which "
                                        "`espalier train` makes"};
  }
  std::vector<std::string> all = {"mesh.axes={}", "runtime.devices=0"};
  all.insert(all.end(), overrides.begin(), overrides.end());
  LoadedModel out;
  ESPALIER_ASSIGN(out.config, load_run_config(run / "config.toml", all));
  ESPALIER_ASSIGN(const CheckpointReader reader,
                  CheckpointReader::open(run / "checkpoints", which, {.quick = true}));
  out.warnings = reader.warnings();
  ESPALIER_ASSIGN(const std::string tokenizer, read_file(run / "tokenizer.txt"));
  ESPALIER_ASSIGN(out.tokenizer, parse_tokenizer(tokenizer));
  out.model = out.config.make_model(out.tokenizer->vocab_size());
  ESPALIER_ASSIGN(out.runtime, Runtime::create(out.config.runtime_options()));
  // On one device nothing is split, also by rules of the recipe's own.
  if (!out.config.mesh.axes.empty()) out.rules = out.config.make_rules();
  out.dtype = out.config.compute_dtype();
  ESPALIER_ASSIGN(out.params, load_params(out.runtime, out.model->params(), out.rules, reader));
  return out;
}

}  // namespace espalier
