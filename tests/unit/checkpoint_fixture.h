// A small training state and how the checkpoint tests save and compare it.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <set>

#include "espalier/base/file.h"
#include "espalier/checkpoint/store.h"

namespace espalier {

// Values that differ from tensor to tensor and from seed to seed.
inline HostArray sample_tensor(const TensorInfo& tensor, int seed) {
  HostArray out(tensor.dtype, tensor.dims);
  for (size_t i = 0; i < out.bytes(); ++i) {
    out.data()[i] = static_cast<std::byte>(
        (i * 7 + tensor.name.size() * 31 + static_cast<size_t>(seed) * 13) % 251);
  }
  return out;
}

inline std::vector<CheckpointTensor> sample_tensors() {
  return {{{"layers.0.weight", DType::kF32, {64, 48}}, "model"},
          {{"layers.1.weight", DType::kF32, {64, 48}}, "model"},
          {{"layers.0.bias", DType::kBF16, {48}}, "model"},
          {{"adam.mu.layers.0.weight", DType::kF32, {64, 48}}, "optimizer"},
          {{"step", DType::kS64, {}}, "state"}};
}

inline Result<CommittedCheckpoint> save_sample(const std::filesystem::path& root, int64_t step,
                                               int seed, CommitOptions options = {},
                                               uint64_t file_bytes = CheckpointWriter::kFileBytes) {
  ESPALIER_ASSIGN(auto writer, CheckpointWriter::begin(root, step, sample_tensors(), file_bytes));
  for (const CheckpointTensor& t : sample_tensors()) {
    ESPALIER_TRY(writer.write(t.tensor.name, sample_tensor(t.tensor, seed)));
  }
  return writer.commit({{"seed", seed}, {"val_loss", 2.5}}, options);
}

// Empty when the checkpoint holds exactly the sample of the seed that its metadata names.
inline std::string sample_problem(const CheckpointReader& reader) {
  const int seed = reader.metadata().value("seed", -1);
  if (seed < 0) return "no seed in the metadata";
  if (reader.tensors().size() != sample_tensors().size()) return "another number of tensors";
  for (const CheckpointTensor& t : sample_tensors()) {
    const auto stored = reader.read(t.tensor.name);
    if (!stored) return stored.failure().message;
    const HostArray expected = sample_tensor(t.tensor, seed);
    if (stored->dims() != expected.dims() ||
        std::memcmp(stored->data(), expected.data(), expected.bytes()) != 0) {
      return "tensor " + t.tensor.name + " has other values";
    }
  }
  return "";
}

inline std::set<std::string> entry_names(const std::filesystem::path& folder) {
  std::set<std::string> out;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    out.insert(entry.path().filename().string());
  }
  return out;
}

// A new folder for each test, with the checkpoints' root (not made yet) in it.
class CheckpointTest : public ::testing::Test {
 protected:
  void SetUp() override {
    // Memory, where there is such a folder: hundreds of saves would wait long for a disk to sync.
    const std::filesystem::path memory = "/dev/shm";
    folder_ = ::access(memory.c_str(), W_OK) == 0 ? memory : std::filesystem::temp_directory_path();
    folder_ /= "espalier_checkpoint_" + std::to_string(::getpid());
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    root_ = folder_ / "checkpoints";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void save(int64_t step, CommitOptions options = {}) {
    const auto saved = save_sample(root_, step, static_cast<int>(step), options);
    ASSERT_TRUE(saved.ok()) << saved.failure().message;
    EXPECT_TRUE(saved->warnings.empty());
  }
  // Opens and compares; the step, or -1 with a test failure.
  int64_t opened_step(const std::string& which, size_t warnings = 0) {
    const auto reader = CheckpointReader::open(root_, which);
    EXPECT_TRUE(reader.ok()) << reader.failure().message;
    if (!reader) return -1;
    EXPECT_EQ(sample_problem(*reader), "");
    EXPECT_EQ(reader->warnings().size(), warnings);
    return reader->step();
  }

  std::filesystem::path folder_, root_;
};

}  // namespace espalier
