#include <nlohmann/json.hpp>

#include "espalier/checkpoint/folder.h"
#include "espalier/checkpoint/store.h"
#include "espalier/checkpoint/tensor_files.h"

namespace espalier {
namespace fs = std::filesystem;
namespace {

using Json = nlohmann::json;

struct Index {
  int64_t step = 0;
  std::map<std::string, FileDigest> files;
  std::map<std::string, std::string> weight_map;
};

Result<Json> parse_json(const fs::path& path) {
  ESPALIER_ASSIGN(const std::string text, read_file(path));
  try {
    return Json::parse(text);
  } catch (const Json::exception& error) {
    return Failure{Code::kDataLoss, "'" + path.string() + "' is not JSON: " + error.what()};
  }
}

Result<Index> read_index(const fs::path& folder) {
  const fs::path path = folder / "index.json";
  ESPALIER_ASSIGN(const Json json, parse_json(path));
  const auto fail = [&](const std::string& what) {
    return Failure{Code::kDataLoss, "'" + path.string() + "' is no checkpoint index: " + what};
  };
  try {
    if (json.at("format") != "espalier-checkpoint") return fail("its format is another one");
    if (json.at("version") != 1) {
      return Failure{Code::kUnimplemented, "'" + path.string() + "' has version " +
                                               json.at("version").dump() +
                                               "; this program reads version 1"};
    }
    Index out;
    out.step = json.at("step").get<int64_t>();
    out.weight_map = json.at("weight_map").get<std::map<std::string, std::string>>();
    for (const auto& [name, file] : json.at("files").items()) {
      // Files lie in the folder itself: an altered index must not lead elsewhere.
      if (name.empty() || fs::path(name).filename() != name)
        return fail("file name '" + name + "'");
      out.files[name] = {file.at("bytes").get<uint64_t>(), file.at("sha256").get<std::string>()};
    }
    if (!out.files.contains("metadata.json")) return fail("it lists no metadata.json");
    return out;
  } catch (const Json::exception& error) {
    return fail(error.what());
  }
}

// What is wrong with a file; empty when it is as the index says.
std::string file_problem(const fs::path& path, const FileDigest& expected, bool quick) {
  const std::string name = "'" + path.string() + "'";
  std::error_code error;
  const uint64_t size = fs::file_size(path, error);
  if (error == std::errc::no_such_file_or_directory) return name + " is missing";
  if (error) return name + ": " + error.message();
  if (size != expected.bytes) {
    return name + (size < expected.bytes ? " is truncated: " : " has grown: ") + "expected " +
           std::to_string(expected.bytes) + " bytes, it has " + std::to_string(size);
  }
  if (quick) return "";
  const auto digest = digest_of_file(path);
  if (!digest) return digest.failure().message;
  if (digest->sha256 != expected.sha256) {
    return name + " was altered: its SHA-256 is " + digest->sha256 + ", the index says " +
           expected.sha256;
  }
  return "";
}

std::string join(const std::vector<std::string>& lines, const char* separator) {
  std::string out;
  for (const std::string& line : lines) out += (out.empty() ? "" : separator) + line;
  return out;
}

}  // namespace

struct CheckpointReader::State {
  int64_t step = 0;
  fs::path folder;
  std::vector<std::string> warnings;
  Json metadata;
  TensorFiles files;
};

// Fails with every problem of the folder, not only the first.
Result<std::shared_ptr<CheckpointReader::State>> CheckpointReader::load(const fs::path& folder,
                                                                        bool quick) {
  ESPALIER_ASSIGN(const Index index, read_index(folder));
  std::vector<std::string> problems;
  for (const auto& [name, digest] : index.files) {
    std::string problem = file_problem(folder / name, digest, quick);
    if (!problem.empty()) problems.push_back(std::move(problem));
  }
  if (!problems.empty()) return Failure{Code::kDataLoss, join(problems, "; ")};

  auto state = std::make_shared<State>();
  state->step = index.step;
  state->folder = folder;
  ESPALIER_ASSIGN(state->metadata, parse_json(folder / "metadata.json"));
  for (const auto& [name, digest] : index.files) {
    if (name == "metadata.json") continue;
    ESPALIER_ASSIGN(SafetensorsFile file, SafetensorsFile::open(folder / name));
    for (const TensorInfo& t : file.tensors()) {
      const auto listed = index.weight_map.find(t.name);
      if (listed == index.weight_map.end() || listed->second != name) {
        return Failure{Code::kDataLoss, "'" + (folder / "index.json").string() +
                                            "' was altered: it does not list tensor '" + t.name +
                                            "' of " + name};
      }
    }
    ESPALIER_TRY(state->files.add(std::move(file)));
  }
  for (const auto& [tensor, file] : index.weight_map) {
    if (state->files.find(tensor) == nullptr) {
      return Failure{Code::kDataLoss, "'" + (folder / "index.json").string() +
                                          "' was altered: it lists tensor '" + tensor + "' in " +
                                          file + ", which is not there"};
    }
  }
  return state;
}

Result<CheckpointReader> CheckpointReader::open_latest(const fs::path& root, OpenOptions options) {
  ESPALIER_ASSIGN(const auto steps, list_steps(root));
  std::vector<std::string> problems;
  std::vector<fs::path> candidates;
  const auto latest = linked_step(root, "latest");
  const fs::path link = root / "latest";
  std::error_code ignored;
  if (latest) {
    // First the one it names, then older ones, newest first; last those past it, which belong to a
    // run that was rewound.
    if (!steps.contains(*latest)) {
      problems.push_back("'" + link.string() + "' names checkpoint " + std::to_string(*latest) +
                         ", which is missing");
    }
    const auto past = steps.upper_bound(*latest);
    for (auto it = past; it != steps.begin();) candidates.push_back((--it)->second);
    for (auto it = steps.end(); it != past;) candidates.push_back((--it)->second);
  } else {
    // A copy that does not keep links has a folder here.
    if (fs::is_directory(fs::symlink_status(link, ignored))) {
      candidates.push_back(link);
    } else if (!steps.empty()) {
      problems.push_back("'" + link.string() + "' is missing or names no step");
    }
    for (auto it = steps.rbegin(); it != steps.rend(); ++it) candidates.push_back(it->second);
  }
  for (const fs::path& folder : candidates) {
    auto state = load(folder, options.quick);
    if (!state) {
      problems.push_back("checkpoint '" + folder.filename().string() +
                         "' is damaged: " + state.failure().message);
      continue;
    }
    if (!problems.empty()) {
      problems.push_back("using checkpoint " + std::to_string((*state)->step) + " instead");
    }
    (*state)->warnings = std::move(problems);
    return CheckpointReader(*std::move(state));
  }
  if (problems.empty()) {
    return Failure{Code::kNotFound, "no checkpoint in '" + root.string() + "'"};
  }
  return Failure{Code::kDataLoss, "no whole checkpoint in '" + root.string() + "':\n  " +
                                      join(problems, "\n  ") +
                                      "\nrestore the files from a copy, or start the run anew"};
}

Result<CheckpointReader> CheckpointReader::open(const fs::path& root, std::string_view which,
                                                OpenOptions options) {
  if (which == "latest") return open_latest(root, options);
  std::optional<int64_t> step = parse_step(which);
  fs::path folder;
  std::error_code ignored;
  if (which == "best") {
    step = linked_step(root, "best");
    if (!step && fs::is_directory(fs::symlink_status(root / "best", ignored))) {
      folder = root / "best";
    } else if (!step) {
      return Failure{Code::kNotFound, "no best checkpoint in '" + root.string() +
                                          "'; evaluate during training, or use latest"};
    }
  } else if (!step) {
    return Failure{Code::kInvalidArgument, "no checkpoint is called '" + std::string(which) +
                                               "'; use latest, best or a step's number"};
  }
  if (step) {
    ESPALIER_ASSIGN(const auto steps, list_steps(root));
    const auto found = steps.find(*step);
    if (found == steps.end()) {
      std::vector<std::string> present;
      for (const auto& [number, path] : steps) present.push_back(std::to_string(number));
      return Failure{Code::kNotFound,
                     "no checkpoint " + std::to_string(*step) + " in '" + root.string() +
                         "'; there " +
                         (present.empty() ? "is none" : "are: " + join(present, ", "))};
    }
    folder = found->second;
  }
  auto state = load(folder, options.quick);
  if (!state) {
    return Failure{state.failure().code == Code::kNotFound ? Code::kDataLoss : state.failure().code,
                   "checkpoint '" + std::string(which) + "' in '" + root.string() +
                       "' is damaged: " + state.failure().message + "; use another one"};
  }
  return CheckpointReader(*std::move(state));
}

CheckpointReader::CheckpointReader(std::shared_ptr<const State> state) : state_(std::move(state)) {}

int64_t CheckpointReader::step() const { return state_->step; }
const fs::path& CheckpointReader::folder() const { return state_->folder; }
const std::vector<std::string>& CheckpointReader::warnings() const { return state_->warnings; }
const Json& CheckpointReader::metadata() const { return state_->metadata; }
std::string CheckpointReader::where() const { return state_->folder.string(); }
const std::vector<TensorInfo>& CheckpointReader::tensors() const { return state_->files.tensors(); }
const TensorInfo* CheckpointReader::find(std::string_view name) const {
  return state_->files.find(name);
}

Result<HostArray> CheckpointReader::read(std::string_view name) const {
  ESPALIER_ASSIGN(const SafetensorsFile* file, state_->files.holder(name, where()));
  return file->read(name);
}

Status CheckpointReader::read_view(std::string_view name, const Dims& view, const Dims& offset,
                                   const Dims& shape, std::span<std::byte> out) const {
  ESPALIER_ASSIGN(const SafetensorsFile* file, state_->files.holder(name, where()));
  return file->read_view(name, view, offset, shape, out);
}

}  // namespace espalier
