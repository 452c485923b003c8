#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <unordered_set>

#include "espalier/checkpoint/folder.h"
#include "espalier/checkpoint/safetensors.h"
#include "espalier/checkpoint/shards.h"
#include "espalier/checkpoint/store.h"

namespace espalier {
namespace fs = std::filesystem;
namespace {

// Held on the root while a writer is at work; the kernel frees it when the process dies.
class FolderLock {
 public:
  static Result<FolderLock> take(const fs::path& root) {
    FolderLock lock(::open(root.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (lock.fd_ < 0) return errno_failure("open", root);
    // File systems without locks go on without one.
    if (::flock(lock.fd_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
      return Failure{Code::kFailedPrecondition,
                     "another writer is saving a checkpoint in '" + root.string() +
                         "'; give each run a folder of its own, or wait for that one to end"};
    }
    return lock;
  }
  FolderLock(FolderLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FolderLock& operator=(FolderLock&&) = delete;
  ~FolderLock() {
    if (fd_ >= 0) ::close(fd_);
  }

 private:
  explicit FolderLock(int fd) : fd_(fd) {}
  int fd_;
};

bool valid_group(const std::string& group) {
  return !group.empty() && std::all_of(group.begin(), group.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  });
}

// Fills files in the caller's order, each group its own.
Result<std::vector<Shard>> plan_shards(const std::vector<CheckpointTensor>& tensors,
                                       uint64_t file_bytes) {
  std::map<std::string, std::vector<TensorInfo>> groups;
  std::unordered_set<std::string> seen;
  for (const CheckpointTensor& t : tensors) {
    if (!valid_group(t.group)) {
      return Failure{Code::kInvalidArgument, "checkpoint group '" + t.group + "' of tensor '" +
                                                 t.tensor.name +
                                                 "' must be lower-case letters, digits and '_'"};
    }
    if (!seen.insert(t.tensor.name).second) {
      return Failure{Code::kInvalidArgument, "checkpoint tensor '" + t.tensor.name +
                                                 "' is listed twice; names are unique "
                                                 "over all groups"};
    }
    groups[t.group].push_back(t.tensor);
  }
  std::vector<Shard> out;
  for (auto& [group, members] : groups) {
    ESPALIER_ASSIGN(std::vector<Shard> shards, split_shards(group, std::move(members), file_bytes));
    std::move(shards.begin(), shards.end(), std::back_inserter(out));
  }
  return out;
}

Failure spent() {
  return {Code::kFailedPrecondition, "this checkpoint writer is spent; begin another one"};
}

}  // namespace

struct CheckpointWriter::State {
  State(FolderLock lock, fs::path root, int64_t step)
      : lock(std::move(lock)),
        root(std::move(root)),
        step(step),
        folder(side_path(this->root, std::to_string(step), "tmp")) {}
  ~State() {
    writers.clear();
    std::error_code ignored;  // the next writer removes what cannot be removed now
    if (!published) fs::remove_all(folder, ignored);
  }

  Status start(const std::vector<CheckpointTensor>& list, uint64_t file_bytes);
  Result<size_t> shard_of(std::string_view name) const;
  Result<uint64_t> finish_files(const nlohmann::json& metadata);
  Failure explain(const Failure& failure) const {
    return {failure.code, "checkpoint " + std::to_string(step) + " was not saved in '" +
                              root.string() + "': " + failure.message +
                              " (earlier checkpoints are untouched)"};
  }

  FolderLock lock;
  fs::path root;
  int64_t step;
  fs::path folder;  // the temporary one
  std::vector<Shard> shards;
  std::vector<SafetensorsWriter> writers;  // one for each shard
  std::vector<TensorInfo> tensors;
  std::unordered_map<std::string, size_t> shard_index;
  bool published = false;
};

Status CheckpointWriter::State::start(const std::vector<CheckpointTensor>& list,
                                      uint64_t file_bytes) {
  ESPALIER_TRY(clean_left_overs(root));
  ESPALIER_ASSIGN(shards, plan_shards(list, file_bytes));
  ESPALIER_TRY(make_folders(folder));
  for (size_t i = 0; i < shards.size(); ++i) {
    // Other programs' loaders refuse a file that does not say whose layout its tensors have.
    ESPALIER_ASSIGN(auto writer, SafetensorsWriter::create(folder / shards[i].file,
                                                           shards[i].tensors, {{"format", "pt"}}));
    writers.push_back(std::move(writer));
    for (const TensorInfo& t : shards[i].tensors) {
      shard_index.emplace(t.name, i);
      tensors.push_back(t);
    }
  }
  return {};
}

Result<size_t> CheckpointWriter::State::shard_of(std::string_view name) const {
  const auto found = shard_index.find(std::string(name));
  if (found == shard_index.end()) {
    return unknown_tensor(name, tensors, "checkpoint " + std::to_string(step));
  }
  return found->second;
}

// Returns the bytes of all files but the index.
Result<uint64_t> CheckpointWriter::State::finish_files(const nlohmann::json& metadata) {
  if (!metadata.is_object()) {
    return Failure{Code::kInvalidArgument, "a checkpoint's metadata must be a JSON object"};
  }
  using Json = nlohmann::json;
  uint64_t total = 0, tensor_bytes = 0;
  Json files = Json::object(), weight_map = Json::object();
  const auto add = [&](const std::string& name, const FileDigest& digest) {
    files[name] = {{"bytes", digest.bytes}, {"sha256", digest.sha256}};
    total += digest.bytes;
  };
  for (size_t i = 0; i < shards.size(); ++i) {
    ESPALIER_ASSIGN(const FileDigest digest, writers[i].finish());
    add(shards[i].file, digest);
    for (const TensorInfo& t : shards[i].tensors) {
      weight_map[t.name] = shards[i].file;
      ESPALIER_ASSIGN(const uint64_t bytes, stored_bytes(t));
      tensor_bytes += bytes;
    }
  }
  try {
    const std::string text = metadata.dump(2) + "\n";
    ESPALIER_TRY(write_file(folder / "metadata.json", text));
    add("metadata.json", digest_of(text));
    const Json index = {{"format", "espalier-checkpoint"},
                        {"version", 1},
                        {"step", step},
                        {"metadata", {{"total_size", tensor_bytes}}},
                        {"weight_map", weight_map},
                        {"files", files}};
    ESPALIER_TRY(write_file(folder / "index.json", index.dump(2) + "\n"));
  } catch (const Json::exception& error) {
    return Failure{Code::kInvalidArgument,
                   std::string("a checkpoint's metadata must be UTF-8: ") + error.what()};
  }
  ESPALIER_TRY(sync_folder(folder));
  return total;
}

CheckpointWriter::CheckpointWriter(std::unique_ptr<State> state) : state_(std::move(state)) {}
CheckpointWriter::CheckpointWriter(CheckpointWriter&&) noexcept = default;
CheckpointWriter& CheckpointWriter::operator=(CheckpointWriter&&) noexcept = default;
CheckpointWriter::~CheckpointWriter() = default;

Result<CheckpointWriter> CheckpointWriter::begin(const fs::path& root, int64_t step,
                                                 const std::vector<CheckpointTensor>& tensors,
                                                 uint64_t file_bytes) {
  if (step < 0) {
    return Failure{Code::kInvalidArgument,
                   "a checkpoint's step must be >= 0, got " + std::to_string(step)};
  }
  ESPALIER_TRY(make_folders(root));
  ESPALIER_ASSIGN(FolderLock lock, FolderLock::take(root));
  auto state = std::make_unique<State>(std::move(lock), root, step);
  if (const Status started = state->start(tensors, file_bytes); !started) {
    return state->explain(started.failure());
  }
  return CheckpointWriter(std::move(state));
}

Status CheckpointWriter::write_piece(std::string_view name, const Dims& offset, const Dims& shape,
                                     std::span<const std::byte> bytes) {
  if (!state_) return spent();
  ESPALIER_ASSIGN(const size_t shard, state_->shard_of(name));
  const Status written = state_->writers[shard].write_piece(name, offset, shape, bytes);
  if (!written) return state_->explain(written.failure());
  return {};
}

Status CheckpointWriter::write_view(std::string_view name, const Dims& view, const Dims& offset,
                                    const Dims& shape, std::span<const std::byte> bytes) {
  if (!state_) return spent();
  ESPALIER_ASSIGN(const size_t shard, state_->shard_of(name));
  const Status written = state_->writers[shard].write_view(name, view, offset, shape, bytes);
  if (!written) return state_->explain(written.failure());
  return {};
}

Status CheckpointWriter::write(std::string_view name, const HostArray& array) {
  if (!state_) return spent();
  ESPALIER_ASSIGN(const size_t shard, state_->shard_of(name));
  const Status written = state_->writers[shard].write(name, array);
  if (!written) return state_->explain(written.failure());
  return {};
}

Result<CommittedCheckpoint> CheckpointWriter::commit(const nlohmann::json& metadata,
                                                     CommitOptions options) {
  if (!state_) return spent();
  const auto state = std::move(state_);  // spent: its destructor cleans up on every way out
  const std::string name = std::to_string(state->step);
  const auto bytes = state->finish_files(metadata);
  if (!bytes) return state->explain(bytes.failure());
  CommittedCheckpoint out{state->root / name, *bytes, {}};
  if (const Status moved = move_into_place(state->root, name); !moved) {
    return state->explain(moved.failure());
  }
  state->published = true;
  Status linked = set_link(state->root, "latest", state->step);
  if (linked && options.best) linked = set_link(state->root, "best", state->step);
  if (!linked) {
    return Failure{linked.failure().code, "checkpoint " + name + " is saved in '" +
                                              out.folder.string() +
                                              "', but: " + linked.failure().message};
  }
  if (options.keep > 0) {
    if (const Status pruned = prune_steps(state->root, state->step, options.keep); !pruned) {
      out.warnings.push_back("an old checkpoint was not deleted: " + pruned.failure().message);
    }
  }
  return out;
}

}  // namespace espalier
