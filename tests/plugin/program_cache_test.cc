// The cache of compiled programs: what comes from it, what must not, and what happens where it is
// damaged or cannot be written.
#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "espalier/ops/op_list.h"
#include "espalier/runtime/program.h"
#include "espalier/runtime/program_cache.h"
#include "tests/support/program.h"
#include "tests/unit/data_testing.h"

namespace espalier::test {
namespace {
namespace fs = std::filesystem;

class ProgramCacheTest : public testing::Test {
 protected:
  std::shared_ptr<Runtime> runtime(std::vector<MeshAxis> axes = {}) {
    RuntimeOptions options;
    options.mesh = Mesh(std::move(axes));
    options.program_cache = cache_;
    return Runtime::create(options).value_or_throw();
  }
  // x * factor + 1 on 8 numbers: the program and its result's first two numbers.
  struct Ran {
    bool from_cache;
    float first, second;
    bool operator==(const Ran&) const = default;
  };
  Ran run(const std::shared_ptr<Runtime>& on, double factor = 3, const PartitionSpec& split = {}) {
    const HostArray x = HostArray::from<float>({8}, {0, 1, 2, 3, 4, 5, 6, 7});
    DeviceArray array = DeviceArray::from_host(on, x, split).value_or_throw();
    ProgramSpec spec;
    spec.arguments = {{"x", array.layout()}};
    spec.function =
        trace({array.type()}, [&](const Tensors& in) -> Tensors { return {in[0] * factor + 1.0}; });
    spec.results = {split};
    Program program = compile(on, std::move(spec)).value_or_throw();
    const auto out = program.run({&array}).value_or_throw();
    const HostArray host = out[0].to_host().value_or_throw();
    return {program.report().from_cache, host.as<float>()[0], host.as<float>()[1]};
  }
  std::set<fs::path> files() const {
    std::set<fs::path> out;
    for (const auto& entry : fs::directory_iterator(cache_)) out.insert(entry.path());
    return out;
  }

  TemporaryFolder folder_;
  fs::path cache_ = folder_ / "deep" / "programs";
};

TEST_F(ProgramCacheTest, TheSecondCompileComesFromIt) {
  const auto on = runtime();
  EXPECT_EQ(run(on), (Ran{false, 1, 4}));
  EXPECT_EQ(run(on), (Ran{true, 1, 4}));
  EXPECT_EQ(run(runtime()), (Ran{true, 1, 4}));  // another client
  EXPECT_EQ(files().size(), 1u);
}

TEST_F(ProgramCacheTest, OnAMeshToo) {
  const std::vector<MeshAxis> axes = {{"data", 8}};
  EXPECT_EQ(run(runtime(axes), 3, {{"data"}}), (Ran{false, 1, 4}));
  EXPECT_EQ(run(runtime(axes), 3, {{"data"}}), (Ran{true, 1, 4}));
}

TEST_F(ProgramCacheTest, ProgramsMeshesAndOptionsDoNotMix) {
  EXPECT_EQ(run(runtime()), (Ran{false, 1, 4}));
  EXPECT_EQ(run(runtime(), 5), (Ran{false, 1, 6}));
  EXPECT_EQ(run(runtime({{"data", 8}})), (Ran{false, 1, 4}));
  EXPECT_EQ(run(runtime({{"data", 8}}), 3, {{"data"}}), (Ran{false, 1, 4}));
  EXPECT_EQ(run(runtime({{"data", 4}}), 3, {{"data"}}), (Ran{false, 1, 4}));
  EXPECT_EQ(run(runtime({{"data", 2}, {"model", 2}}), 3, {{"data"}}), (Ran{false, 1, 4}));
  EXPECT_EQ(files().size(), 6u);
}

TEST_F(ProgramCacheTest, ADamagedFileIsCompiledAnewAndReplaced) {
  EXPECT_EQ(run(runtime()), (Ran{false, 1, 4}));
  const fs::path file = *files().begin();
  const std::string whole = read_file(file).value_or_throw();
  std::string altered = whole;
  altered[altered.size() / 2] ^= 1;
  for (const std::string& text :
       {altered, whole.substr(0, whole.size() / 2), std::string(), std::string(200, 'x')}) {
    std::ofstream(file, std::ios::binary | std::ios::trunc) << text;
    EXPECT_EQ(run(runtime()), (Ran{false, 1, 4}));
    EXPECT_EQ(run(runtime()), (Ran{true, 1, 4}));
  }
}

TEST_F(ProgramCacheTest, WhatThePluginCannotReadIsCompiledAnew) {
  EXPECT_EQ(run(runtime()), (Ran{false, 1, 4}));
  const std::string key = files().begin()->stem().string();
  ProgramCache(cache_).store(key, "no program at all").value_or_throw();
  EXPECT_EQ(run(runtime()), (Ran{false, 1, 4}));
  EXPECT_EQ(run(runtime()), (Ran{true, 1, 4}));
}

TEST_F(ProgramCacheTest, AnUnusableFolderOnlyWarns) {
  folder_.write("deep", "a file where the folder should be");
  testing::internal::CaptureStderr();
  const Ran ran = run(runtime());
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(ran, (Ran{false, 1, 4}));
  EXPECT_NE(said.find("the compiled program is not kept"), std::string::npos) << said;
  EXPECT_NE(said.find(cache_.string()), std::string::npos) << said;
}

TEST_F(ProgramCacheTest, WithoutAFolderNothingIsKept) {
  cache_.clear();
  EXPECT_EQ(run(runtime()), (Ran{false, 1, 4}));
  EXPECT_EQ(run(runtime()), (Ran{false, 1, 4}));
}

TEST_F(ProgramCacheTest, TheOldestGoFirst) {
  const ProgramCache small(cache_, 3 * 165);  // each file has 65 bytes more than its program
  const std::string program(100, 'p');
  for (const char* key : {"a", "b", "c"}) {
    small.store(key, program).value_or_throw();
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_EQ(small.load("a"), program);  // now "b" was used longest ago
  std::this_thread::sleep_for(std::chrono::milliseconds(10));
  small.store("d", program).value_or_throw();
  EXPECT_EQ(small.load("b"), std::nullopt);
  for (const char* key : {"a", "c", "d"}) EXPECT_EQ(small.load(key), program) << key;
}

TEST_F(ProgramCacheTest, AFreshProcessUsesIt) {
  const fs::path text = folder_.write("text.txt", std::string(2000, 'a') + "bcdefghijkl\n");
  const fs::path recipe = folder_.write(
      "recipe.toml",
      "[model]\nmaxlen = 8\nembed_dim = 8\nnum_heads = 2\nfeed_forward_dim = 8\n"
      "num_transformer_blocks = 1\n[data]\nsource = \"text\"\npath = \"" +
          text.string() + "\"\ntokenizer = \"char\"\nseq_len = 8\nbatch_size = 4\ncache_dir = \"" +
          (folder_ / "tokens").string() +
          "\"\n[train]\nsteps = 2\n[sample]\nevery = 0\n[logging]\nplot = false\n");
  const auto train = [&](const std::string& run, const std::string& environment) {
    Child child({"train", recipe.string(), "--run", (folder_ / run).string()}, folder_ / run,
                {.environment = {{"ESPALIER_CACHE", (folder_ / "own").string()},
                                 {"XLA_FLAGS", environment}}});
    return child.wait();
  };
  expect_ended(train("first", ""), 0, {"the step was compiled"});
  EXPECT_TRUE(fs::is_directory(folder_ / "own" / "programs"));
  expect_ended(train("second", ""), 0, {"the step came from the cache"});
  // Options that the compiler takes from the environment make another program.
  expect_ended(train("third", "--xla_cpu_enable_fast_math=true"), 0, {"the step was compiled"});
}

}  // namespace
}  // namespace espalier::test
