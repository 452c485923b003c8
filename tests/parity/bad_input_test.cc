// What the program does with bad input: its exit status, the words of its message, and that nothing
// is made or lost.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>

#include <csignal>
#include <fstream>

#include "espalier/base/locate.h"
#include "espalier/train/metrics.h"
#include "tests/support/program.h"
#include "tests/unit/data_testing.h"

namespace espalier::test {
namespace {
namespace fs = std::filesystem;

using Words = std::vector<std::string>;

// All files below a folder with their contents and times of change, to see that nothing is touched.
std::map<std::string, std::string> snapshot(const fs::path& folder) {
  std::map<std::string, std::string> out;
  if (!fs::exists(folder)) return out;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const std::string name = fs::relative(entry.path(), folder).string();
    if (entry.is_symlink()) {
      out[name] = fs::read_symlink(entry.path()).string();
    } else if (entry.is_regular_file()) {
      const auto time = entry.last_write_time().time_since_epoch().count();
      out[name] = std::to_string(time) + read_file(entry.path()).value_or_throw();
    }
  }
  return out;
}

class BadInputTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::make_unique<TemporaryFolder>();
    std::string text;
    for (int i = 0; i < 200; ++i)
      text += "the quick brown foxes jump over lazy dogs " + std::to_string(i) + "\n";
    folder_->write("text.txt", text);
    folder_->write("recipe.toml", recipe());
    ASSERT_EQ(train("good").status, 0) << "the recipe itself must work";
  }
  static void TearDownTestSuite() { folder_.reset(); }

  static std::string recipe() {
    return "[model]\nmaxlen = 16\nembed_dim = 16\nnum_heads = 4\nfeed_forward_dim = 24\n"
           "num_transformer_blocks = 1\ndropout = 0.0\n"
           "[data]\nsource = \"text\"\npath = \"" +
           at("text.txt") +
           "\"\ntokenizer = \"char\"\nseq_len = 16\nbatch_size = 8\ncache_dir = \"" + at("tokens") +
           "\"\n[train]\nsteps = 8\nlog_every = 4\ncheckpoint_every = 4\n"
           "[sample]\nprompt = \"the \"\nevery = 0\n"
           "[logging]\nplot = false\ntensorboard = false\n";
  }
  static std::string at(const std::string& name) { return (*folder_ / name).string(); }
  static ChildOptions environment() { return {.environment = {{"ESPALIER_CACHE", at("cache")}}}; }
  static Ended run(const Words& arguments, const ChildOptions& options = environment()) {
    Child child(arguments, *folder_ / "child", options);
    return child.wait();
  }
  static Words train_arguments(const std::string& name, const Words& more) {
    Words all = {"train", at("recipe.toml"), "--run", at(name)};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  static Ended train(const std::string& name, const Words& more = {}) {
    return run(train_arguments(name, more));
  }
  // A training that must fail before its folder is made.
  static void expect_refused(const Words& more, int status, const Words& words) {
    const Ended ended = train("refused", more);
    expect_ended(ended, status, words);
    EXPECT_NE(ended.err.find("error: "), std::string::npos) << ended.err;
    EXPECT_FALSE(fs::exists(at("refused"))) << ended.err;
    fs::remove_all(at("refused"));
  }
  static void expect_bad_recipe(const std::string& text, const Words& words) {
    folder_->write("bad.toml", text);
    expect_ended(run({"train", at("bad.toml"), "--run", at("refused")}), 2, words);
    EXPECT_FALSE(fs::exists(at("refused")));
  }
  // A copy of the good run, to do harm to.
  static fs::path copy_of_good(const std::string& name) {
    fs::remove_all(at(name));
    fs::copy(at("good"), at(name), fs::copy_options::recursive | fs::copy_options::copy_symlinks);
    return at(name);
  }

  static std::unique_ptr<TemporaryFolder> folder_;
};
std::unique_ptr<TemporaryFolder> BadInputTest::folder_;

TEST_F(BadInputTest, CommandLine) {
  expect_ended(run({}), 2, {"subcommand"});
  expect_ended(run({"trian"}), 2, {"unknown subcommand 'trian'"});
  expect_ended(run({"train"}), 2, {"recipe"});
  expect_ended(run({"train", at("recipe.toml"), "--rum", "x"}), 2, {"--rum"});
  expect_ended(run({"--help"}), 0, {"train", "generate", "prepare"});
  expect_ended(run({"train", "--help"}), 0, {"--resume", "--set"});
  expect_ended(run({"--version"}), 0, {"."});
  expect_ended(run({"train", at("recipe.toml"), "--resume"}), 2, {"--resume needs --run DIR"});
}

TEST_F(BadInputTest, DataFile) {
  expect_refused({"--set", "data.path=" + at("none.txt")}, 1, {at("none.txt"), "No such file"});
  folder_->write("empty.txt", "");
  expect_refused({"--set", "data.path=" + at("empty.txt")}, 2, {at("empty.txt"), "is empty"});
  folder_->write("latin.txt", "first line\nna\xefve text " + std::string(1000, 'x'));
  expect_refused({"--set", "data.path=" + at("latin.txt")}, 2,
                 {at("latin.txt"), "not valid UTF-8", "byte 13", "line 2"});
  expect_refused({"--set", "data.path=''"}, 2, {"data.path"});
  expect_refused({"--set", "data.batch_size=5000"}, 2, {"batch"});
}

TEST_F(BadInputTest, Vocabulary) {
  expect_refused({"--set", "model.vocab_size=20"}, 2,
                 {"the id 31", "outside the model's vocabulary of 20"});
  expect_refused({"--set", "sample.every=1", "--set", "sample.prompt='ZEBRA'"}, 2,
                 {"sample.prompt", "byte offset 0"});
  expect_refused({"--set", "sample.every=1", "--set", "sample.prompt='the the the the the'"}, 2,
                 {"the prompt has 19 tokens", "at most 15"});
}

TEST_F(BadInputTest, Mesh) {
  const Words both = {"--set", "mesh.axes={batch = 4, model = 2}"};
  const auto with = [&](const std::string& set) {
    Words all = both;
    all.insert(all.end(), {"--set", set});
    return all;
  };
  expect_refused(with("runtime.devices=4"), 2,
                 {"{batch = 4, model = 2}", "needs 8 devices", "4", "[runtime] devices"});
  expect_refused(with("data.batch_size=6"), 2, {"data.batch_size", "6", "batch", "4"});
  expect_refused(
      {"--set", "mesh.axes={model = 8}"}, 2,
      {"parameter 'blocks.*.mha.query.kernel'", "dim 2", "is 4", "axis 'model' of size 8"});
  expect_refused(with("sharding.rules={mlp = 'tp'}"), 2, {"tp", "batch"});
  expect_refused(with("sharding.params={'blocks.*.l7.kernel' = ['', 'model', '']}"), 2,
                 {"blocks.*.l7.kernel", "matches no parameter"});
  expect_refused({"--set", "mesh.axes={batch = 0}"}, 2, {"mesh.axes", "at least 1"});
  expect_refused({"--set", "model.num_heads=3"}, 2, {"model.embed_dim = 16", "num_heads = 3"});
  expect_refused({"--set", "model.maxlen=8"}, 2, {"data.seq_len = 16", "model.maxlen = 8"});
  expect_refused({"--set", "train.eval_every=2", "--set", "data.validation_fraction=0"}, 2,
                 {"train.eval_every", "data.validation_fraction"});
}

TEST_F(BadInputTest, Recipe) {
  expect_ended(run({"train", at("none.toml")}), 1, {at("none.toml")});
  expect_bad_recipe("[model]\nembed_dmi = 16\n", {"bad.toml:2", "embed_dmi", "embed_dim"});
  expect_bad_recipe("[modle]\nembed_dim = 16\n", {"bad.toml:1", "modle", "model"});
  expect_bad_recipe("[model]\n\nembed_dim = \"wide\"\n",
                    {"bad.toml:3", "model.embed_dim", "an integer", "wide"});
  expect_bad_recipe("[model]\nembed_dim = = 3\n", {"bad.toml:2:"});
  expect_bad_recipe("[data]\nsource = \"tape\"\n", {"bad.toml:2", "data.source", "tape"});
  expect_bad_recipe("[optimizer]\nbeta1 = 1.5\n", {"optimizer.beta1", "1.5"});
  expect_refused({"--set", "steps"}, 2, {"--set", "steps"});
  expect_refused({"--set", "train.step=3"}, 2, {"train.step", "train.steps"});
  expect_refused({"--set", "train.steps=many"}, 2, {"--set train.steps=many", "an integer"});
  expect_refused({"--set", "train.steps=-1"}, 2, {"train.steps", "at least 0"});
}

TEST_F(BadInputTest, Plugin) {
  expect_refused({"--plugin", at("none.so")}, 1, {at("none.so")});
  expect_refused({"--plugin", "quantum"}, 2, {"quantum", "cpu, cuda, tpu"});
  folder_->write("text.so", "this is no library");
  expect_refused({"--plugin", at("text.so")}, 2, {at("text.so")});
  // A library that is no plugin.
  for (const char* library :
       {"/lib/x86_64-linux-gnu/libz.so.1", "/lib/aarch64-linux-gnu/libz.so.1"}) {
    if (!fs::exists(library)) continue;
    expect_refused({"--plugin", library}, 2, {library, "GetPjrtApi"});
  }
}

TEST_F(BadInputTest, RunFolder) {
  const auto before = snapshot(at("good"));
  expect_ended(train("good"), 1, {at("good"), "--resume", "--run DIR"});
  folder_->write("a-file", "x");
  expect_ended(train("a-file"), 1, {at("a-file"), "not a folder"});
  fs::create_directories(at("foreign"));
  folder_->write("foreign/letter.txt", "x");
  expect_ended(train("foreign"), 1, {"letter.txt", "--run DIR"});
  expect_ended(train("foreign", {"--resume"}), 1,
               {at("foreign"), "no run to resume", "config.toml"});
  expect_ended(train("nowhere", {"--resume"}), 1, {at("nowhere"), "no run to resume"});
  EXPECT_FALSE(fs::exists(at("nowhere")));
  EXPECT_EQ(snapshot(at("foreign")).size(), 1u);
  EXPECT_TRUE(snapshot(at("good")) == before);
}

TEST_F(BadInputTest, ResumeOfAnotherModel) {
  const auto before = snapshot(at("good"));
  expect_ended(train("good", {"--resume", "--set", "model.embed_dim=32"}), 2,
               {"model.embed_dim was 16", "is 32 now", "metadata.json"});
  expect_ended(train("good", {"--resume", "--set", "model.num_transformer_blocks=2"}), 2,
               {"model.num_transformer_blocks was 1", "is 2 now"});
  EXPECT_TRUE(snapshot(at("good")) == before);
}

TEST_F(BadInputTest, TwoTrainingsInOneFolder) {
  Child first(train_arguments("busy", {"--set", "train.steps=1000000"}), *folder_ / "first",
              environment());
  ASSERT_TRUE(first.wait_until([&] { return fs::exists(at("busy/metrics.jsonl")); }));
  expect_ended(train("busy"), 1, {at("busy"), "--resume"});
  expect_ended(train("busy", {"--resume"}), 1, {"another process is training in", at("busy")});
  first.send(SIGTERM);
  expect_ended(first.wait(), 0, {"stopped by a signal"});
}

TEST_F(BadInputTest, DamagedCheckpoint) {
  const fs::path model = "model-00001-of-00001.safetensors";
  const auto truncate = [](const fs::path& file) {
    fs::resize_file(file, fs::file_size(file) / 2);
  };
  const auto alter = [](const fs::path& file) {
    std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
    stream.seekp(static_cast<std::streamoff>(fs::file_size(file) - 100));
    stream.put('!');
  };
  const auto remove = [](const fs::path& file) { fs::remove(file); };
  struct Harm {
    std::function<void(const fs::path&)> act;
    std::string file, word;
  };
  for (const Harm& harm :
       {Harm{truncate, model, "truncated"}, Harm{alter, model, "altered"},
        Harm{remove, model, "missing"}, Harm{remove, "metadata.json", "missing"},
        Harm{remove, "index.json", "index.json"}, Harm{truncate, "index.json", "not JSON"}}) {
    const fs::path run = copy_of_good("harmed");
    ASSERT_TRUE(fs::exists(run / "checkpoints" / "8" / harm.file)) << harm.file;
    harm.act(run / "checkpoints" / "8" / harm.file);
    const Ended ended = train("harmed", {"--resume"});
    expect_ended(ended, 0,
                 {"warning: ", "checkpoint '8' is damaged", harm.word, "using checkpoint 4 instead",
                  "resumed after step 4", "done: 8 steps"});
    // The step that was lost is made again as it was.
    const auto metrics = read_metrics(run / "metrics.jsonl").value_or_throw();
    const auto want = read_metrics(at("good/metrics.jsonl")).value_or_throw();
    ASSERT_EQ(metrics.size(), want.size());
    EXPECT_EQ(metrics.back().loss, want.back().loss);
  }
  // Where none is whole, nothing is overwritten.
  const fs::path run = copy_of_good("harmed");
  for (const char* step : {"4", "8"}) truncate(run / "checkpoints" / step / model);
  const auto before = snapshot(run);
  expect_ended(train("harmed", {"--resume"}), 1, {"no whole checkpoint", "truncated"});
  EXPECT_TRUE(snapshot(run) == before);
}

TEST_F(BadInputTest, FileSizeLimitWhileSaving) {
  const fs::path run = copy_of_good("limited");
  const auto before = snapshot(run / "checkpoints");
  ChildOptions options = environment();
  options.file_size_limit = 8192;  // config and metrics fit, no checkpoint does
  const Ended ended =
      ::espalier::test::Child(train_arguments("limited", {"--resume", "--set", "train.steps=12"}),
                              *folder_ / "child", options)
          .wait();
  expect_ended(ended, 1, {"limited/checkpoints", "File too large"});
  EXPECT_TRUE(snapshot(run / "checkpoints") == before);
  expect_ended(train("limited", {"--resume", "--set", "train.steps=12"}), 0, {"done: 12 steps"});
}

TEST_F(BadInputTest, FullDiskWhileSaving) {
  const fs::path disk = *folder_ / "disk";
  fs::create_directories(disk);
  if (::unshare(CLONE_NEWNS) != 0 ||
      ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      ::mount("none", disk.c_str(), "tmpfs", 0, "size=400k") != 0) {
    GTEST_SKIP() << "a small file system cannot be mounted here";
  }
  const Words more = {"--set", "train.steps=1000", "--set", "train.keep_checkpoints=0"};
  const Ended ended = train("disk/run", more);
  expect_ended(ended, 1, {"disk/run/checkpoints", "No space left on device"});
  const auto saved = snapshot(disk / "run" / "checkpoints");
  EXPECT_TRUE(saved.contains("4/index.json"));
  for (const auto& [name, content] : saved) EXPECT_NE(name[0], '.') << name;
  // What was saved can be used.
  expect_ended(run({"generate", "--run", at("disk/run"), "--prompt", "the "}), 0, {"the "});
  ::umount(disk.c_str());
}

TEST_F(BadInputTest, Generate) {
  const Words base = {"generate", "--run", at("good")};
  const auto with = [&](const Words& more) {
    Words all = base;
    all.insert(all.end(), more.begin(), more.end());
    return run(all);
  };
  const auto before = snapshot(at("good"));
  expect_ended(with({"--prompt", "the fox", "--top-k", "1"}), 0, {"the fox"});
  expect_ended(with({"--prompt", "the quick brown fox"}), 2,
               {"the prompt has 19 tokens", "at most 15"});
  expect_ended(with({"--prompt", "THE"}), 2, {"--prompt", "byte offset 0"});
  expect_ended(with({"--checkpoint", "5"}), 1, {"no checkpoint 5", "4, 8"});
  expect_ended(with({"--checkpoint", "newest"}), 2, {"newest", "latest, best"});
  expect_ended(with({"--checkpoint", "best"}), 1, {"no best checkpoint"});
  expect_ended(with({"--top-k", "1000"}), 0, {});  // more than there are: all
  expect_ended(with({"--temperature", "-1"}), 2, {"--temperature"});
  expect_ended(run({"generate"}), 2, {"--run"});
  expect_ended(run({"generate", "--run", at("nowhere")}), 1, {at("nowhere")});
  EXPECT_TRUE(snapshot(at("good")) == before);
}

// A run on a mesh with rules of its own is generated from on one device.
TEST_F(BadInputTest, GenerateFromARunWithRulesOfItsOwn) {
  expect_ended(train("own-rules", {"--set", "mesh.axes={dp = 2, tp = 2}", "--set",
                                   "sharding.rules={batch = 'dp', mlp = 'tp', embed = []}"}),
               0, {"done: 8 steps"});
  expect_ended(run({"generate", "--run", at("own-rules"), "--prompt", "the "}), 0, {"the "});
}

}  // namespace
}  // namespace espalier::test
