// `espalier compile`, and the compiled step that `train` loads: what is told of it, and what is
// said where it cannot be made or is another one.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "espalier/base/sha256.h"
#include "espalier/ops/elementwise.h"
#include "espalier/runtime/program_cache.h"
#include "espalier/runtime/saved_program.h"
#include "espalier/train/compile_step.h"
#include "tests/support/program.h"
#include "tests/support/tiny_training.h"
#include "tests/unit/data_testing.h"

namespace espalier::test {
namespace {

using Words = std::vector<std::string>;

constexpr const char* kRecipe = R"(
[model]
name = "minigpt"
vocab_size = 512
maxlen = 16
embed_dim = 16
num_heads = 2
feed_forward_dim = 32
num_transformer_blocks = 3
dropout = 0.0
[data]
path = "PATH"
source = "text"
tokenizer = "char"
seq_len = 16
batch_size = 8
[train]
steps = 3
log_every = 1
checkpoint_every = 0
[sample]
every = 0
[logging]
tensorboard = false
plot = false
)";

class Compile : public testing::Test {
 protected:
  Compile() {
    std::string text, recipe = kRecipe;
    for (int i = 0; i < 400; ++i) text += "the quick brown fox " + std::to_string(i % 7) + ". ";
    const std::string data = folder_.write("text.txt", text).string();
    recipe.replace(recipe.find("PATH"), 4, data);
    recipe_ = folder_.write("recipe.toml", recipe).string();
  }

  Ended run(Words arguments, const std::string& mesh = "{}", Words more = {}) {
    arguments.insert(arguments.begin() + 1, recipe_);
    for (const std::string& set :
         {"mesh.axes=" + mesh, "data.cache_dir=" + (folder_ / "cache").string()}) {
      arguments.insert(arguments.end(), {"--set", set});
    }
    arguments.insert(arguments.end(), more.begin(), more.end());
    ChildOptions options;
    options.environment = {{"ESPALIER_CACHE", (folder_ / "programs").string()}};
    return Child(arguments, folder_ / "child", options).wait();
  }
  CompiledStep compiled(const std::string& mesh, Words more = {}) {
    more.insert(more.end(), {"--json", "-"});
    const Ended ended = run({"compile"}, mesh, more);
    EXPECT_EQ(ended.status, 0) << ended.err;
    const auto json = nlohmann::json::parse(ended.out, nullptr, false);
    EXPECT_FALSE(json.is_discarded()) << ended.out;
    return json.is_discarded() ? CompiledStep() : json.get<CompiledStep>();
  }
  static double bytes_of(const CompiledStep& step, const std::string& kind) {
    double sum = 0;
    for (const CollectiveCost& c : step.collectives) sum += c.kind == kind ? c.bytes : 0;
    return sum;
  }
  // The lines with losses of a run's metrics.
  std::string losses(const std::string& run) const {
    std::string out;
    const std::string metrics = read_file(folder_.path() / run / "metrics.jsonl").value_or_throw();
    for (size_t at = 0; (at = metrics.find("\"loss\":", at)) != std::string::npos; ++at) {
      out += metrics.substr(at, metrics.find(',', at) - at) + "\n";
    }
    return out;
  }

  TemporaryFolder folder_;
  std::string recipe_;
};

TEST_F(Compile, OneDeviceNeedsNoCollectives) {
  const CompiledStep step = compiled("{}");
  EXPECT_EQ(step.devices, 1);
  EXPECT_EQ(step.platform, "cpu");
  EXPECT_EQ(step.target, "local");
  EXPECT_EQ(step.tokens, 8 * 16);
  EXPECT_TRUE(step.has_program_cost);
  EXPECT_TRUE(step.collectives.empty());
  // The arguments are the state, the key and the batch; the state is taken over by the next one.
  EXPECT_EQ(step.argument_bytes, step.state_bytes);
  const int64_t inputs = 2 * 8 * 16 * 4 + 8;
  EXPECT_GE(step.state_bytes, 3 * 4 * step.parameters + inputs);
  EXPECT_EQ(step.aliased_bytes, step.argument_bytes - inputs);
  EXPECT_GT(step.temporary_bytes, 0);
  EXPECT_GE(step.peak_bytes, step.temporary_bytes + step.argument_bytes);
  EXPECT_GT(step.compile_seconds, 0);
  EXPECT_GT(step.model_flops, 0);
  EXPECT_GT(step.step_flops, 0);
  // At least every argument is read and every result written.
  EXPECT_GT(step.bytes_accessed, static_cast<double>(step.argument_bytes + step.output_bytes));
  EXPECT_EQ(step.unknown_loops, 0);
  EXPECT_TRUE(step.bounds.empty());
  EXPECT_FALSE(step.fits().has_value());
}

TEST_F(Compile, AMeshSplitsBytesAndBringsCollectives) {
  const CompiledStep one = compiled("{}"), both = compiled("{batch=2, model=2}");
  EXPECT_EQ(both.devices, 4);
  EXPECT_EQ(both.parameters, one.parameters);
  EXPECT_EQ(both.model_flops, one.model_flops);
  EXPECT_EQ(both.argument_bytes, both.state_bytes);
  EXPECT_LT(both.argument_bytes, one.argument_bytes);
  EXPECT_GT(both.argument_bytes, one.argument_bytes / 4);
  // Attention and feed-forward layers of each of 3 blocks sum over "model", forward and backward.
  double among_model = 0;
  for (const CollectiveCost& c : both.collectives) {
    EXPECT_EQ(c.group_size, 2);
    among_model += c.count;
  }
  EXPECT_GE(among_model, 3 * 4);
  EXPECT_GT(bytes_of(both, "all-reduce"), 0);
}

TEST_F(Compile, TrainLoadsWhatWasSaved) {
  const std::string file = (folder_ / "step.bin").string(), mesh = "{batch=2, model=2}";
  expect_ended(run({"compile", "--save", file}, mesh), 0,
               {"memory of each device", "all-reduce", "--compiled " + file});
  const auto run_in = [&](const std::string& name, Words more) {
    more.insert(more.end(), {"--run", (folder_ / name).string()});
    return run({"train"}, mesh, more);
  };
  expect_ended(run_in("loaded", {"--compiled", file}), 0, {"the step was loaded in", "done: 3"});
  expect_ended(run_in("compiled", {}), 0, {"the step was compiled in", "done: 3"});
  EXPECT_EQ(losses("loaded"), losses("compiled"));
  EXPECT_NE(losses("loaded"), "");

  expect_ended(run_in("refused", {"--compiled", file, "--set", "data.batch_size=16"}), 2,
               {"step.bin", "another one than this recipe makes"});
  EXPECT_FALSE(std::filesystem::exists(folder_ / "refused" / "config.toml"));
}

TEST_F(Compile, AStepForAnotherPlaceIsRefused) {
  const auto plugin = Plugin::load("cpu").value_or_throw();
  const Mesh mesh({{"data", 2}});
  SavedProgram saved{"step.bin",
                     "local",
                     "digest",
                     "cpu",
                     mesh.to_string(),
                     plugin_identity(*plugin),
                     sha256_hex(host_cpu_features()),
                     "bytes"};
  EXPECT_TRUE(check_saved(saved, *plugin, "cpu", mesh, "digest").ok());
  const auto refusal = [&](const SavedProgram& other, const Mesh& on) {
    const Status status = check_saved(other, *plugin, "cpu", on, "digest");
    EXPECT_FALSE(status.ok());
    return status.ok() ? "" : status.failure().message;
  };
  EXPECT_NE(refusal(saved, Mesh({{"data", 4}}))
                .find("'step.bin' is for the mesh {data = 2}, but here is {data = 4}"),
            std::string::npos);
  SavedProgram other = saved;
  other.platform = "tpu";
  EXPECT_NE(refusal(other, mesh).find("the platform tpu, but here is cpu"), std::string::npos);
  other = saved;
  other.plugin = "PJRT 0.1";
  EXPECT_NE(refusal(other, mesh).find("the plugin PJRT 0.1, but here is PJRT"), std::string::npos);
  other = saved;
  other.host = "another";
  EXPECT_NE(refusal(other, mesh).find("other instruction sets"), std::string::npos);
}

TEST_F(Compile, FilesThatAreNoStepAreRefused) {
  const auto refused = [&](const std::string& content, int status, const std::string& part) {
    const std::string file = folder_.write("other.bin", content).string();
    expect_ended(run({"train", "--compiled", file, "--run", (folder_ / "r").string()}), status,
                 {part});
  };
  refused("hello\n", 2, "holds no compiled program");
  refused("{\"format\": \"espalier-program-1\"}\nbytes", 1, "is damaged");
}

TEST_F(Compile, WhatCannotBeCompiledFor) {
  expect_ended(run({"compile", "--topology", "v9:2x4"}), 2,
               {"no machine is called 'v9'", "v5e:2x4", "h100:8"});
  // Without its data the recipe's vocabulary is not known.
  expect_ended(run({"compile"}, "{}", {"--set", "model.vocab_size=0", "--set", "data.path=gone"}),
               1, {"leaves model.vocab_size to the data", "--set model.vocab_size=NUMBER"});
  expect_ended(run({"compile", "--plugin", "gone/plugin.so"}), 1,
               {"no plugin at 'gone/plugin.so'"});
}

// Without the plugin the message says how to get it; with it the step is compiled.
TEST_F(Compile, ForTpus) {
  if (const auto path = plugin_path("tpu"); !path) {
    expect_ended(run({"compile", "--topology", "v5e:2x4"}), 1, {"./dev setup --tpu"});
    GTEST_SKIP() << path.failure().message;
  }
  expect_ended(run({"compile", "--topology", "v5e:2x4"}), 2,
               {"the mesh {} has 1 device, but v5e:2x4 has 8", "--set 'mesh.axes={data=8}'"});
  const std::string file = (folder_ / "tpu.bin").string();
  const CompiledStep step =
      compiled("{batch=4, model=2}", {"--topology", "v5e:2x4", "--save", file});
  EXPECT_EQ(step.platform, "tpu");
  EXPECT_EQ(step.device_kind, "TPU v5 lite");
  EXPECT_EQ(step.fits(), true);
  EXPECT_GE(step.argument_bytes, step.state_bytes);  // its layouts pad
  EXPECT_GT(bytes_of(step, "all-reduce"), 0);
  EXPECT_EQ(step.unknown_loops, 0);
  ASSERT_EQ(step.bounds.size(), 3u);
  EXPECT_GT(step.seconds_bound(), 0);
  EXPECT_GT(step.mfu_bound(), 0);
  EXPECT_LT(step.mfu_bound(), 1);
  const SavedProgram saved = SavedProgram::load(file).value_or_throw();
  EXPECT_EQ(saved.platform, "tpu");
  EXPECT_EQ(saved.target, "v5e:2x4");
  EXPECT_FALSE(saved.bytes.empty());
}

TEST_F(Compile, ForNvidia) {
  if (const auto path = plugin_path("cuda"); !path) {
    expect_ended(run({"compile", "--topology", "h100:2"}), 1, {"./dev setup --cuda"});
    GTEST_SKIP() << path.failure().message;
  }
  const CompiledStep step = compiled("{model=2}", {"--topology", "h100:2"});
  EXPECT_EQ(step.platform, "cuda");
  EXPECT_EQ(step.fits(), true);
  EXPECT_EQ(step.argument_bytes, step.state_bytes);
  EXPECT_GT(bytes_of(step, "all-reduce"), 0);
  EXPECT_EQ(step.unknown_loops, 0);
  EXPECT_EQ(step.bounds.size(), 3u);
}

// An array that does not fit what was compiled is named, with both layouts.
TEST(ProgramArguments, ThatDoNotFitAreNamed) {
  RuntimeOptions options;
  options.mesh = Mesh({{"data", 2}, {"model", 2}});
  const auto runtime = Runtime::create(options).value_or_throw();
  ProgramSpec spec;
  spec.name = "double";
  spec.arguments = {{"x", make_layout({DType::kF32, {8, 4}}, {{"data"}, {}})}};
  spec.trace([](const Tensors& in) { return Tensors{in[0] + in[0]}; });
  spec.results = {{{"data"}, {}}};
  Program program = compile(runtime, spec).value_or_throw();
  const auto refusal = [&](const std::shared_ptr<Runtime>& on, const HostArray& host,
                           const PartitionSpec& split) -> std::string {
    DeviceArray array = DeviceArray::from_host(on, host, split).value_or_throw();
    const auto out = program.run({&array});
    if (out.ok()) return "accepted";
    EXPECT_EQ(out.failure().code, Code::kInvalidArgument);
    return out.failure().message;
  };
  const HostArray x(DType::kF32, {8, 4});
  EXPECT_EQ(refusal(runtime, x, {{"data"}, {}}), "accepted");
  EXPECT_EQ(refusal(runtime, x, {{"model"}, {}}),
            "argument 'x' of 'double' is compiled for f32[8, 4] split [[data], []], got f32[8, 4] "
            "split [[model], []]");
  EXPECT_EQ(refusal(runtime, HostArray(DType::kF32, {8, 8}), {{"data"}, {}}),
            "argument 'x' of 'double' is compiled for f32[8, 4] split [[data], []], got f32[8, 8] "
            "split [[data], []]");
  EXPECT_EQ(refusal(runtime, HostArray(DType::kS32, {8, 4}), {{"data"}, {}}),
            "argument 'x' of 'double' is compiled for f32[8, 4] split [[data], []], got i32[8, 4] "
            "split [[data], []]");
  options.mesh = Mesh({{"data", 4}, {"model", 1}});
  const auto other = Runtime::create(options).value_or_throw();
  EXPECT_EQ(refusal(other, x, {{"data"}, {}}),
            "argument 'x' of 'double' lies on the mesh {data = 4, model = 1} as f32[8, 4] split "
            "[[data], []], but is compiled for the mesh {data = 2, model = 2} as f32[8, 4] split "
            "[[data], []]");
}

}  // namespace
}  // namespace espalier::test
