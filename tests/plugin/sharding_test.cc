// The compiled training step is sharded as the rules say: bytes on each device, collectives in the
// optimized program, memory taken over from step to step; and it runs for many steps on 8 devices.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <set>

#include "tests/support/tiny_training.h"

namespace espalier::test {
namespace {

const std::vector<MeshAxis> kBoth = {{"batch", 4}, {"model", 2}}, kData = {{"batch", 8}};

// The compiled steps, made once. They go before the process ends: the plugin's own globals, which
// a client needs, do not outlive main().
class Sharding : public testing::Test {
 protected:
  static void TearDownTestSuite() { made().clear(); }
  static TinyTraining& training_on(const std::vector<MeshAxis>& axes) {
    auto& slot = made()[Mesh(axes).to_string()];
    if (slot == nullptr) slot = std::make_unique<TinyTraining>(TinyOptions{.axes = axes});
    return *slot;
  }

 private:
  static std::map<std::string, std::unique_ptr<TinyTraining>>& made() {
    static std::map<std::string, std::unique_ptr<TinyTraining>> trainings;
    return trainings;
  }
};

int64_t state_bytes_on_a_device(const TinyTraining& training) {
  size_t bytes = 0;
  for (const DeviceArray& array : training.state)
    bytes += array.bytes_on_device(0).value_or_throw();
  return static_cast<int64_t>(bytes);
}

int64_t count_of(const Counts& counts, const std::string& opcode) {
  int64_t n = 0;
  for (const auto& [name, count] : counts) {
    // Synchronous, or the beginning of an asynchronous one.
    if (name == opcode || name == opcode + "-start") n += count;
  }
  return n;
}

Counts opcodes(TinyTraining& training) {
  return training.step()
      .program()
      .executable()
      .optimized_program()
      .value_or_throw()
      .opcode_counts()
      .value_or_throw();
}

// Parameters of the tiny model that "model" splits: every matrix, and the biases along split dims.
const std::set<std::string> kSplit = {"tok.embedding",
                                      "blocks.*.mha.query.kernel",
                                      "blocks.*.mha.query.bias",
                                      "blocks.*.mha.key.kernel",
                                      "blocks.*.mha.key.bias",
                                      "blocks.*.mha.value.kernel",
                                      "blocks.*.mha.value.bias",
                                      "blocks.*.mha.out.kernel",
                                      "blocks.*.l1.kernel",
                                      "blocks.*.l1.bias",
                                      "blocks.*.l2.kernel",
                                      "out.kernel",
                                      "out.bias"};

TEST_F(Sharding, HalfOfEveryMatrixOnEachDevice) {
  const TinyTraining& training = training_on(kBoth);
  const auto& params = training.model->params();
  const auto& arrays = training.layout->arrays();
  size_t split = 0;
  for (size_t i = 0; i + 1 < arrays.size(); ++i) {  // the last one is the step's number
    // Of parameter, first and second moment alike.
    const auto param = std::find_if(params.begin(), params.end(), [&](const ParamSpec& spec) {
      return arrays[i].name == spec.name || arrays[i].name == "optimizer.m." + spec.name ||
             arrays[i].name == "optimizer.v." + spec.name;
    });
    ASSERT_NE(param, params.end()) << arrays[i].name;
    const bool expected = kSplit.contains(param->name);
    const auto whole =
        static_cast<size_t>(num_elements(training.state[i].type().dims)) * sizeof(float);
    for (size_t d = 0; d < 8; ++d) {
      EXPECT_EQ(training.state[i].bytes_on_device(d).value_or_throw(), expected ? whole / 2 : whole)
          << arrays[i].name;
    }
    split += expected;
  }
  EXPECT_EQ(split, 3 * kSplit.size());
}

TEST_F(Sharding, ThePaddedVocabularyIsSplitAndStaysZero) {
  TinyTraining& training = training_on(kBoth);
  training.run(0, 3);
  size_t seen = 0;
  for (size_t i = 0; i < training.layout->num_params(); ++i) {
    const ParamSpec& spec = training.model->params()[i];
    if (spec.name != "tok.embedding" && spec.name != "out.bias") continue;
    const HostArray value = training.state[i].to_host().value_or_throw();
    EXPECT_EQ(value.dims()[0], 62) << spec.name;  // 61 in two equal parts
    const auto numbers = value.as<float>();
    const size_t width = numbers.size() / 62;
    for (const float x : numbers.last(width)) EXPECT_EQ(x, 0) << spec.name;
    EXPECT_NE(numbers[numbers.size() - width - 1], 0) << spec.name;
    ++seen;
  }
  EXPECT_EQ(seen, 2u);
}

TEST_F(Sharding, CollectivesInTheOptimizedProgram) {
  const Counts one = opcodes(training_on({})), data = opcodes(training_on(kData)),
               both = opcodes(training_on(kBoth));
  for (const char* collective :
       {"all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute"}) {
    EXPECT_EQ(count_of(one, collective), 0) << collective;
  }
  // Data parallel: gradients are summed, and nothing of a parameter is ever gathered.
  EXPECT_GT(count_of(data, "all-reduce"), 0);
  EXPECT_EQ(count_of(data, "all-gather"), 0);
  EXPECT_EQ(count_of(data, "all-to-all"), 0);
  // Tensor parallel: sums after each pair of matrices too, forward and backward.
  EXPECT_GT(count_of(both, "all-reduce"), count_of(data, "all-reduce"));
  EXPECT_EQ(count_of(both, "all-to-all"), 0);
}

// Addresses of all pieces of the state, where it lies after its first step.
std::vector<uintptr_t> addresses(const TinyTraining& training) {
  std::vector<uintptr_t> out;
  for (const DeviceArray& array : training.state) {
    for (const Buffer& shard : array.shards()) {
      out.push_back(shard.unsafe_pointer().value_or_throw());
    }
  }
  return out;
}

TEST_F(Sharding, OneCopyOfTheState) {
  for (const auto& axes : {std::vector<MeshAxis>{}, kData, kBoth}) {
    TinyTraining& training = training_on(axes);
    const std::string where = training.mesh.to_string();
    const CompiledMemoryStats memory =
        training.step().program().executable().memory_stats().value_or_throw();
    EXPECT_EQ(memory.alias, state_bytes_on_a_device(training)) << where;
    // Arguments are the state, the key, tokens and targets; results the state and the report.
    EXPECT_LE(memory.argument, memory.alias + 8 + 2 * 8 * kTinySeqLen * 4 + 64) << where;
    training.run(0, 1);
    const auto before = addresses(training);
    training.run(1, 4);
    EXPECT_EQ(addresses(training), before) << where;
  }
}

// Steps in flight on all devices at once, as training keeps them; a deadlock of collectives would
// run into the test's time limit.
TEST_F(Sharding, ManyStepsInFlight) {
  TinyTraining& training = training_on(kBoth);
  std::deque<PendingReport> in_flight;
  double last = 0;
  for (int64_t i = 0; i < 1500; ++i) {
    in_flight.push_back(training.step().run(training.state, training.batch(i)).value_or_throw());
    if (in_flight.size() > 3) {
      last = training.step().read(in_flight.front()).value_or_throw().loss;
      in_flight.pop_front();
    }
  }
  EXPECT_LT(last, 3.0);  // ln 61 is 4.1
}

TEST_F(Sharding, AnotherMeshsStateIsRefused) {
  TinyTraining &one = training_on({}), &both = training_on(kBoth);
  const auto refused = one.step().run(both.state, one.batch(0));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.failure().code, Code::kInvalidArgument);
  EXPECT_NE(refused.failure().message.find("tok.embedding"), std::string::npos)
      << refused.failure().message;
  for (const DeviceArray& array : both.state) EXPECT_FALSE(array.empty());
}

}  // namespace
}  // namespace espalier::test
