// Checkpoints on disk: one folder a step, written whole or not at all, and checked when read.
//
//   ROOT/STEP/GROUP-00001-of-00002.safetensors   tensors of a group ("model", "optimizer", ...)
//   ROOT/STEP/metadata.json                      the caller's JSON object
//   ROOT/STEP/index.json   {"format": "espalier-checkpoint", "version": 1, "step": STEP,
//                           "metadata": {"total_size": BYTES}, "weight_map": {TENSOR: FILE, ...},
//                           "files": {FILE: {"bytes": SIZE, "sha256": HEX}, ...}}
//   ROOT/latest, ROOT/best                       links to a step (see folder.h)
//
// A tensor is stored as one whole array whatever the mesh: any layout can write it in pieces, and
// any other can read other pieces.
#pragma once

#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/base/host_array.h"
#include "espalier/checkpoint/tensor_source.h"

namespace espalier {

struct CheckpointTensor {
  TensorInfo tensor;            // names are unique over all groups
  std::string group = "model";  // lower-case letters, digits and '_'; begins its files' names
};

struct CommitOptions {
  bool best = false;  // make this checkpoint the `best` one too
  int keep = 0;       // delete all but this many of the newest checkpoints; 0 keeps all
};

struct CommittedCheckpoint {
  std::filesystem::path folder;
  uint64_t bytes = 0;                 // of all its files but the index
  std::vector<std::string> warnings;  // what went wrong after the checkpoint was safe (deleting)
};

// One checkpoint being written. Destroyed without commit(), it leaves nothing behind; a crash at
// any moment leaves every earlier checkpoint whole and `latest` valid. At most one writer for a
// root at a time, over all processes of this machine. write_piece() may be called from several
// threads.
class CheckpointWriter {
 public:
  static constexpr uint64_t kFileBytes = uint64_t{4} << 30;

  // Removes what killed writers left, and reserves the disk space of all tensors (full disk or
  // file size limit: kResourceExhausted). Files hold at most `file_bytes` of tensors each; a larger
  // tensor has one for itself. kFailedPrecondition while another writer is at work in the root.
  static Result<CheckpointWriter> begin(const std::filesystem::path& root, int64_t step,
                                        const std::vector<CheckpointTensor>& tensors,
                                        uint64_t file_bytes = kFileBytes);
  CheckpointWriter(CheckpointWriter&&) noexcept;
  CheckpointWriter& operator=(CheckpointWriter&&) noexcept;
  ~CheckpointWriter();

  // Writes the slice [offset, offset + shape) of a tensor from its row-major bytes. Pieces may come
  // in any order and must not overlap.
  Status write_piece(std::string_view name, const Dims& offset, const Dims& shape,
                     std::span<const std::byte> bytes);
  // The same with offset and shape in the shape `view`, which has as many elements as the tensor.
  // All pieces of one tensor have one view.
  Status write_view(std::string_view name, const Dims& view, const Dims& offset, const Dims& shape,
                    std::span<const std::byte> bytes);
  Status write(std::string_view name, const HostArray& array);

  // Finishes, syncs and publishes the checkpoint, points `latest` to it, then deletes old ones. A
  // checkpoint of the same step is replaced. `metadata` is an object; JSON has no NaN, which
  // becomes null. kFailedPrecondition unless every tensor is written exactly once. After a failure
  // the writer is spent and its files are removed.
  Result<CommittedCheckpoint> commit(const nlohmann::json& metadata, CommitOptions options = {});

 private:
  struct State;
  explicit CheckpointWriter(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

struct OpenOptions {
  bool quick = false;  // compare sizes only, not SHA-256: for generation, not for resuming
};

// One checkpoint being read. Copies share the mapped files. Safe to read from several threads.
class CheckpointReader : public TensorSource {
 public:
  // `which` is "latest", "best" or a step's number. Every file must be there with the size and the
  // SHA-256 that the index gives. When `latest` is damaged or missing, the newest whole checkpoint
  // before it is taken (failing that, the newest whole one after it) and warnings() says what is
  // wrong with which file. `best` and a number are taken as asked for or fail. kNotFound: no such
  // checkpoint, or none at all; kDataLoss: damaged, with a list of everything found wrong.
  static Result<CheckpointReader> open(const std::filesystem::path& root, std::string_view which,
                                       OpenOptions options = {});

  int64_t step() const;
  const std::filesystem::path& folder() const;
  const std::vector<std::string>& warnings() const;
  const nlohmann::json& metadata() const;
  std::string where() const override;
  // Of all files, in the files' order.
  const std::vector<TensorInfo>& tensors() const override;
  const TensorInfo* find(std::string_view name) const override;

  Result<HostArray> read(std::string_view name) const;
  // Only the pages that the slice touches are loaded.
  Status read_view(std::string_view name, const Dims& view, const Dims& offset, const Dims& shape,
                   std::span<std::byte> out) const override;

 private:
  struct State;
  explicit CheckpointReader(std::shared_ptr<const State> state);
  static Result<std::shared_ptr<State>> load(const std::filesystem::path& folder, bool quick);
  static Result<CheckpointReader> open_latest(const std::filesystem::path& root,
                                              OpenOptions options);
  std::shared_ptr<const State> state_;
};

}  // namespace espalier
