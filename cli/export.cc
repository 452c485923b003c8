#include "cli/export.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/hf_tokenizer.h"
#include "espalier/base/file.h"
#include "espalier/base/log.h"
#include "espalier/checkpoint/names.h"
#include "espalier/checkpoint/weights_folder.h"
#include "espalier/train/config.h"
#include "espalier/train/state.h"

namespace espalier {
namespace fs = std::filesystem;
namespace {

struct Options {
  std::string run, checkpoint = "latest", out;
};

// A folder that is made beside its target and takes its place at the end; gone where that fails.
class NewFolder {
 public:
  explicit NewFolder(const fs::path& target) : target_(fs::absolute(target).lexically_normal()) {
    if (target_.filename().empty()) target_ = target_.parent_path();
    std::error_code none;
    if (fs::exists(fs::symlink_status(target_, none)) &&
        !(fs::is_directory(target_, none) && fs::is_empty(target_, none))) {
      throw Error("'" + target.string() +
                      "' is there and is not an empty folder; give another --out, or remove it",
                  Code::kAlreadyExists);
    }
    path_ =
        target_.parent_path() / fmt::format(".{}.{}.tmp", target_.filename().string(), ::getpid());
    make_folders(path_).value_or_throw();
  }
  ~NewFolder() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;

  const fs::path& path() const { return path_; }
  void publish() {
    sync_folder(path_).value_or_throw();
    std::error_code error;
    fs::rename(path_, target_, error);
    if (error) {
      throw Error("cannot rename '" + path_.string() + "' to '" + target_.string() +
                      "': " + error.message(),
                  Code::kFailedPrecondition);
    }
    path_.clear();
    sync_folder(target_.parent_path()).value_or_throw();
  }

 private:
  fs::path target_, path_;
};

// A source with tensors of zeros beside its own.
class WithZeros : public TensorSource {
 public:
  WithZeros(RenamedSource source, const std::vector<TensorInfo>& zeros)
      : source_(std::move(source)), tensors_(source_.tensors()) {
    tensors_.insert(tensors_.end(), zeros.begin(), zeros.end());
  }
  std::string where() const override { return source_.where(); }
  const std::vector<TensorInfo>& tensors() const override { return tensors_; }
  const TensorInfo* find(std::string_view name) const override {
    const auto found = std::find_if(tensors_.begin(), tensors_.end(),
                                    [&](const TensorInfo& t) { return t.name == name; });
    return found == tensors_.end() ? nullptr : &*found;
  }
  Status read_view(std::string_view name, const Dims& view, const Dims& offset, const Dims& shape,
                   std::span<std::byte> out) const override {
    const TensorInfo* tensor = find(name);
    if (tensor == nullptr || source_.find(name) != nullptr) {
      return source_.read_view(name, view, offset, shape, out);
    }
    ESPALIER_ASSIGN(const TensorInfo seen, viewed(*tensor, view));
    ESPALIER_TRY(check_slice(seen, offset, shape, out.size()));
    std::fill(out.begin(), out.end(), std::byte{0});
    return {};
  }

 private:
  RenamedSource source_;
  std::vector<TensorInfo> tensors_;
};

// Writes the parameters under the names of Hugging Face's files. Biases that the run's model was
// made without are zeros there: transformers' GPT-2 always has them.
void write_weights(const fs::path& folder, const std::shared_ptr<const CheckpointReader>& reader,
                   const RunConfig& config, const LanguageModel& model,
                   const nlohmann::json& json) {
  std::vector<TensorInfo> ours, zeros;
  std::map<std::string, std::string> renamed;
  std::vector<std::string> names;
  for (const ParamSpec& spec : model.params()) {
    for (const CheckpointTensor& entry : stored_tensors(stored_param(spec))) {
      ours.push_back(entry.tensor);
      names.push_back(config.model->hf_names(entry.tensor.name).at(0));
      renamed.emplace(names.back(), entry.tensor.name);
    }
  }
  check_names(*reader, ours, {"optimizer.*", "step"}).value_or_throw();
  const auto theirs = model_config_from_hf(json).value_or_throw();
  const auto whole = theirs->make(0);
  whole->hold_params_in(config.param_dtype());
  for (const ParamSpec& spec : whole->params()) {
    for (CheckpointTensor& entry : stored_tensors(stored_param(spec))) {
      entry.tensor.name = theirs->hf_names(entry.tensor.name).at(0);
      if (renamed.contains(entry.tensor.name)) continue;
      if (spec.init.kind != Initializer::Kind::kZeros) {
        throw Error("the model has no '" + entry.tensor.name + "', which its Hugging Face form has",
                    Code::kUnimplemented);
      }
      names.push_back(entry.tensor.name);
      zeros.push_back(std::move(entry.tensor));
    }
  }
  const WithZeros source(RenamedSource::create(reader, renamed).value_or_throw(), zeros);
  write_weights_folder(folder, source, names).value_or_throw();
}

nlohmann::json config_json(const ModelConfig& config, const LanguageModel& model,
                           const Tokenizer& tokenizer, DType dtype) {
  nlohmann::json out = config.to_hf(model.vocab_size()).value_or_throw();
  const auto end = tokenizer.end_of_text();
  for (const char* key : {"bos_token_id", "eos_token_id"}) {
    out[key] = end ? nlohmann::json(*end) : nlohmann::json(nullptr);
  }
  if (dtype == DType::kBF16) out["torch_dtype"] = "bfloat16";
  return out;
}

void run_export(const Options& o) {
  const fs::path run = o.run;
  const RunConfig config = load_run_config(run / "config.toml", {}).value_or_throw();
  const auto tokenizer =
      parse_tokenizer(read_file(run / "tokenizer.txt").value_or_throw()).value_or_throw();
  const auto model = config.make_model(tokenizer->vocab_size());
  const nlohmann::json json = config_json(*config.model, *model, *tokenizer, config.param_dtype());
  const auto reader = std::make_shared<const CheckpointReader>(
      CheckpointReader::open(run / "checkpoints", o.checkpoint).value_or_throw());
  for (const std::string& warning : reader->warnings()) err().warn("{}", warning);

  NewFolder folder(o.out);
  const bool for_transformers =
      write_tokenizer_files(folder.path(), *tokenizer, model->max_len()).value_or_throw();
  write_file(folder.path() / "config.json", json.dump(2) + "\n").value_or_throw();
  write_weights(folder.path(), reader, config, *model, json);
  folder.publish();
  out().info("{}: {}, {} parameters of step {}", o.out, config.model->name(),
             num_parameters(model->params()), reader->step());
  out().info("  tokenizer: {}{}", tokenizer->name(),
             for_transformers ? "" : ", in tokenizer.txt only, which transformers do not read");
  out().info("  use: espalier generate --hf {}, or transformers' from_pretrained", o.out);
}

}  // namespace

void add_export(CLI::App& app) {
  auto o = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "export", "Write a run's model as a folder that Hugging Face's transformers open.");
  command->add_option("--run", o->run, "Folder of the run.")->required();
  command->add_option("--checkpoint", o->checkpoint, "latest, best or a step.");
  command->add_option("-o,--out", o->out, "Folder to make.")->required();
  command->callback([o] { run_export(*o); });
}

}  // namespace espalier
