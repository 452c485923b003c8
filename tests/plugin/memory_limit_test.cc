// No host holds a whole model beside the devices' pieces: a model is made, and read back from a
// checkpoint, under a limit of memory that has no room for a second copy of it. (Devices here are
// virtual ones in this process, so that their pieces count too.)
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <fstream>
#include <functional>
#include <memory>
#include <new>
#include <nlohmann/json.hpp>

#include "espalier/base/child_process.h"
#include "espalier/base/locate.h"
#include "espalier/checkpoint/store.h"
#include "espalier/nn/param.h"
#include "espalier/train/setup.h"
#include "tests/unit/data_testing.h"

namespace espalier::test {
namespace {
namespace fs = std::filesystem;

// Bytes of this process's writable memory: what RLIMIT_DATA limits.
int64_t data_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmData:")) return std::stoll(line.substr(7)) * 1024;
  }
  return 0;
}

bool can_allocate(int64_t bytes) {
  const std::unique_ptr<char[]> block(new (std::nothrow) char[static_cast<size_t>(bytes)]);
  return block != nullptr;
}

std::vector<std::string> large_model(const TemporaryFolder& folder) {
  return {"model.dim=1024",
          "model.n_layers=16",
          "model.n_heads=8",
          "model.n_kv_heads=8",
          "model.hidden_dim=2816",
          "model.vocab_size=32768",
          "data.source=synthetic",
          "sample.every=0",
          "data.cache_dir=" + (folder / "tokens").string(),
          "mesh.axes={fsdp=8}",
          "optimizer.name=sgd",
          "optimizer.weight_decay=0",
          "runtime.cache=false",
          "runtime.peak_flops=1e9"};
}

// With the model set up and, from then on, room for half of it beside its pieces. `get` makes the
// state; `use` sees it.
Result<std::string> under_limit(const TemporaryFolder& folder,
                                const std::function<Result<TrainState>(const RunSetup&)>& get,
                                const std::function<Status(const RunSetup&, TrainState&)>& use) {
  const std::string recipe = (fs::path(ESPALIER_SOURCE_DIR) / "recipes/llama3-debug.toml").string();
  ESPALIER_ASSIGN(const RunConfig config, load_run_config(recipe, large_model(folder)));
  ESPALIER_ASSIGN(const RunSetup setup, set_up(config, true));
  const int64_t model = 4 * num_parameters(setup.model->params());
  const rlimit limit{static_cast<rlim_t>(data_bytes() + model + model / 2), RLIM_INFINITY};
  if (::setrlimit(RLIMIT_DATA, &limit) != 0) return Failure{Code::kInternal, "no limit was set"};
  ESPALIER_ASSIGN(TrainState state, get(setup));
  if (can_allocate(model)) return std::string("the limit has room for a second model");
  ESPALIER_TRY(use(setup, state));
  return std::to_string(model >> 20) + " MiB";
}

Status save(const TemporaryFolder& folder, const RunSetup& setup, const TrainState& state) {
  std::vector<CheckpointTensor> tensors;
  for (const StoredArray& stored : setup.layout->stored()) {
    for (CheckpointTensor& t : stored_tensors(stored)) tensors.push_back(std::move(t));
  }
  ESPALIER_ASSIGN(CheckpointWriter writer, CheckpointWriter::begin(folder / "run", 1, tensors));
  ESPALIER_TRY(save_state(writer, *setup.layout, state));
  const auto saved = writer.commit(nlohmann::json::object(), {});
  return saved ? Status() : saved.failure();
}

TEST(MemoryLimit, HasNoRoomForASecondModel) {
  if (const auto path = plugin_path("cpu"); !path) GTEST_SKIP() << path.failure().message;
  const TemporaryFolder folder;
  const auto made = run_in_child("the process that makes it", [&] {
    return under_limit(folder, first_state, [&](const RunSetup& setup, const TrainState& state) {
      return save(folder, setup, state);
    });
  });
  ASSERT_TRUE(made) << made.failure().message;
  EXPECT_EQ(*made, "1040 MiB");
  const auto read = run_in_child("the process that reads it", [&] {
    const auto load = [&](const RunSetup& setup) -> Result<TrainState> {
      ESPALIER_ASSIGN(const CheckpointReader reader,
                      CheckpointReader::open(folder / "run", "latest"));
      return load_state(setup.runtime, *setup.layout, reader);
    };
    return under_limit(folder, load, [](const RunSetup&, const TrainState&) { return Status(); });
  });
  ASSERT_TRUE(read) << read.failure().message;
  EXPECT_EQ(*read, "1040 MiB");
}

}  // namespace
}  // namespace espalier::test
