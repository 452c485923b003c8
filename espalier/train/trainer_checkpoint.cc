#include "espalier/train/trainer_checkpoint.h"

#include <nlohmann/json.hpp>

namespace espalier {

Status check_state_names(const CheckpointReader& reader, const StateLayout& layout) {
  std::vector<TensorInfo> expected;
  for (const StoredArray& stored : layout.stored()) {
    for (const CheckpointTensor& t : stored_tensors(stored)) expected.push_back(t.tensor);
  }
  return check_names(reader, expected, {});
}

Result<CommittedCheckpoint> write_checkpoint(const std::filesystem::path& folder, int64_t step,
                                             const StateLayout& layout, TrainState& state,
                                             const nlohmann::json& metadata,
                                             const CommitOptions& options) {
  std::vector<CheckpointTensor> tensors;
  for (const StoredArray& stored : layout.stored()) {
    for (CheckpointTensor& t : stored_tensors(stored)) tensors.push_back(std::move(t));
  }
  ESPALIER_ASSIGN(CheckpointWriter writer, CheckpointWriter::begin(folder, step, tensors));
  ESPALIER_TRY(save_state(writer, layout, state));
  return writer.commit(metadata, options);
}

}  // namespace espalier
