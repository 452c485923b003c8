// `espalier train --profile`: what the trace holds, that the training is the same, and what is said
// where it ends early. And the steps' times beside it.
#include <gtest/gtest.h>

#include <csignal>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "espalier/train/metrics.h"
#include "tests/support/program.h"
#include "tests/unit/data_testing.h"

namespace espalier::test {
namespace {
namespace fs = std::filesystem;

using Json = nlohmann::json;
using Words = std::vector<std::string>;

class ProfileTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::make_unique<TemporaryFolder>();
    std::string text;
    for (int i = 0; i < 200; ++i)
      text += "the quick brown foxes jump over lazy dogs " + std::to_string(i) + "\n";
    folder_->write("text.txt", text);
    folder_->write(
        "recipe.toml",
        "[model]\nmaxlen = 16\nembed_dim = 16\nnum_heads = 4\nfeed_forward_dim = 24\n"
        "num_transformer_blocks = 1\ndropout = 0.0\n[data]\nsource = \"text\"\npath = \"" +
            at("text.txt") +
            "\"\ntokenizer = \"char\"\nseq_len = 16\nbatch_size = 8\ncache_dir = \"" +
            at("tokens") +
            "\"\n[train]\nsteps = 8\nlog_every = 1\neval_every = 3\neval_batches = 2\n"
            "checkpoint_every = 4\n[sample]\nprompt = \"the \"\nevery = 4\n"
            "max_tokens = 8\n[logging]\nplot = false\ntensorboard = false\n");
  }
  static void TearDownTestSuite() { folder_.reset(); }

  static std::string at(const std::string& name) { return (*folder_ / name).string(); }
  static ChildOptions environment() { return {.environment = {{"ESPALIER_CACHE", at("cache")}}}; }
  static Words arguments(const std::string& run, const Words& more) {
    Words all = {"train", at("recipe.toml"), "--run", at(run)};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  static Ended train(const std::string& run, const Words& more = {}) {
    Child child(arguments(run, more), *folder_ / "child", environment());
    return child.wait();
  }
  static std::vector<fs::path> profiles(const std::string& run) {
    std::vector<fs::path> out;
    const fs::path folder = fs::path(at(run)) / "plugins" / "profile";
    if (!fs::exists(folder)) return out;
    for (const auto& entry : fs::directory_iterator(folder)) out.push_back(entry.path());
    return out;
  }
  // The trace of the run's only profile.
  static Json trace(const std::string& run) {
    const std::vector<fs::path> all = profiles(run);
    if (all.size() != 1) throw Error("one profile expected in " + run);
    return Json::parse(read_file(all[0] / "espalier.trace.json").value_or_throw());
  }

  static std::unique_ptr<TemporaryFolder> folder_;
};
std::unique_ptr<TemporaryFolder> ProfileTest::folder_;

TEST_F(ProfileTest, TheTraceHoldsWhatEachThreadDidInTheseSteps) {
  const Ended ended = train("traced", {"--profile", "2:4"});
  expect_ended(ended, 0,
               {"cpu plugin has no profiler", "profile of steps 2 to 4 in", at("traced"),
                "espalier.trace.json opens in Perfetto", "done: 8 steps"});
  const std::string name = profiles("traced").at(0).filename().string();
  EXPECT_EQ(name.size(), std::string("2026_01_31_23_59_59").size()) << name;
  EXPECT_EQ(name.find_first_not_of("0123456789_"), std::string::npos) << name;
  const Json json = trace("traced");
  EXPECT_EQ(json["otherData"]["steps"], "2:4");
  EXPECT_EQ(json["otherData"]["platform"], "cpu");

  std::map<int, std::string> threads;
  std::map<std::string, std::vector<int64_t>> steps;              // of each kind of event
  std::map<int, std::vector<std::pair<int64_t, int64_t>>> spans;  // of each thread, nanoseconds
  std::map<std::pair<std::string, int64_t>, int64_t> begins;
  for (const Json& event : json["traceEvents"]) {
    if (event["name"] == "thread_name") threads[event["tid"]] = event["args"]["name"];
    if (event["ph"] != "X") continue;
    const auto begin = std::llround(event["ts"].get<double>() * 1000);
    const auto end = begin + std::llround(event["dur"].get<double>() * 1000);
    EXPECT_GE(begin, 0);
    EXPECT_GE(end, begin);
    steps[event["name"]].push_back(event["args"]["step"]);
    spans[event["tid"]].push_back({begin, end});
    begins[{event["name"], event["args"]["step"]}] = begin;
    const int tid = event["name"] == "fill" ? 2 : event["name"] == "step" ? 3 : 1;
    EXPECT_EQ(event["tid"], tid) << event;
  }
  EXPECT_EQ(threads, (std::map<int, std::string>{{1, "run"}, {2, "loader"}, {3, "device"}}));
  // The loader is ahead of the run by up to its four slots, so its steps are others.
  ASSERT_EQ(steps.count("fill"), 1u);
  for (const int64_t step : steps["fill"]) EXPECT_TRUE(step >= 2 && step <= 8) << step;
  steps.erase("fill");
  const std::vector<int64_t> all = {2, 3, 4};
  EXPECT_EQ(steps, (std::map<std::string, std::vector<int64_t>>{{"load", all},
                                                                {"put", all},
                                                                {"dispatch", all},
                                                                {"wait", all},
                                                                {"step", all},
                                                                {"log", all},
                                                                {"eval", {3}},
                                                                {"sample", {4}},
                                                                {"checkpoint", {4}}}));
  for (auto& [thread, all_spans] : spans) {
    std::sort(all_spans.begin(), all_spans.end());
    for (size_t i = 1; i < all_spans.size(); ++i) {
      EXPECT_GE(all_spans[i].first, all_spans[i - 1].second) << "thread " << thread;
    }
  }
  for (const int64_t step : all) {
    const Words order = {"load", "put", "dispatch", "wait", "log"};
    for (size_t i = 1; i < order.size(); ++i) {
      const int64_t earlier = begins[{order[i - 1], step}], later = begins[{order[i], step}];
      EXPECT_LT(earlier, later) << order[i] << " of step " << step;
    }
  }
}

TEST_F(ProfileTest, StepsThatOverlapAreTracedAndTheTrainingIsTheSame) {
  const Words set = {"--set", "train.log_every=4", "--set", "train.eval_every=0",
                     "--set", "sample.every=0"};
  Words profiled = set;
  profiled.insert(profiled.end(), {"--profile", "1:8"});
  expect_ended(train("plain", set), 0, {"done: 8 steps"});
  expect_ended(train("whole", profiled), 0, {"profile of steps 1 to 8"});
  const auto want = read_metrics(at("plain/metrics.jsonl")).value_or_throw();
  const auto got = read_metrics(at("whole/metrics.jsonl")).value_or_throw();
  ASSERT_EQ(got.size(), 2u);
  ASSERT_EQ(want.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(got[i].loss, want[i].loss);
    EXPECT_EQ(got[i].grad_norm, want[i].grad_norm);
  }
  EXPECT_TRUE(profiles("plain").empty());
  std::vector<int64_t> done;
  const Json json = trace("whole");
  for (const Json& event : json["traceEvents"]) {
    if (event["name"] == "step") done.push_back(event["args"]["step"]);
  }
  EXPECT_EQ(done, (std::vector<int64_t>{1, 2, 3, 4, 5, 6, 7, 8}));
}

TEST_F(ProfileTest, ASignalLeavesWhatThereIs) {
  Child child(arguments("signalled", {"--set", "train.steps=1000000", "--profile", "2:999999"}),
              *folder_ / "signalled_child", environment());
  ASSERT_TRUE(child.wait_until([] {
    return fs::exists(at("signalled/metrics.jsonl")) &&
           read_metrics(at("signalled/metrics.jsonl")).value_or_throw().size() >= 3;
  }));
  child.send(SIGTERM);
  const Ended ended = child.wait();
  expect_ended(ended, 0,
               {"profile of steps 2 to", "stopped by a signal after step", "fastest step"});
  std::set<std::string> names;
  int64_t last = 0;
  const Json json = trace("signalled");
  for (const Json& event : json["traceEvents"]) {
    names.insert(event["name"]);
    if (event["name"] == "step") last = event["args"]["step"];
  }
  EXPECT_EQ(json["otherData"]["steps"], "2:" + std::to_string(last));
  EXPECT_TRUE(names.contains("dispatch") && names.contains("checkpoint"));

  Child early(arguments("early", {"--set", "train.steps=1000000", "--profile", "900000:900001"}),
              *folder_ / "early_child", environment());
  ASSERT_TRUE(early.wait_until([] { return fs::exists(at("early/metrics.jsonl")); }));
  early.send(SIGTERM);
  expect_ended(early.wait(), 0, {"no profile: the run ended after step", "before step 900000"});
  EXPECT_TRUE(profiles("early").empty());
}

TEST_F(ProfileTest, WrongStepsAreRefusedBeforeAnythingIsMade) {
  const std::pair<const char*, const char*> bad[] = {{"4:2", "past STOP"},
                                                     {"0:2", "counted from 1"},
                                                     {"two:3", "START:STOP"},
                                                     {"3", "START:STOP"},
                                                     {"2:9", "the run has 8 steps (train.steps"}};
  for (const auto& [range, words] : bad) {
    expect_ended(train("refused", {std::string("--profile=") + range}), 2,
                 {std::string("--profile ") + range, words});
    EXPECT_FALSE(fs::exists(at("refused")));
  }
  expect_ended(train("resumed"), 0, {"done: 8 steps"});
  expect_ended(train("resumed", {"--resume", "--set", "train.steps=10", "--profile", "8:9"}), 2,
               {"--profile 8:9", "the run goes on after step 8", "at least 9"});
  EXPECT_TRUE(profiles("resumed").empty());
  expect_ended(train("resumed", {"--resume", "--set", "train.steps=10", "--profile", "9:10"}), 0,
               {"profile of steps 9 to 10"});
}

TEST_F(ProfileTest, AProfileThatCannotBeWrittenIsAWarning) {
  expect_ended(train("blocked", {"--set", "train.steps=4"}), 0, {"done: 4 steps"});
  std::ofstream(at("blocked/plugins")) << "a file where the folder should be";
  expect_ended(train("blocked", {"--resume", "--profile", "5:6"}), 0,
               {"warning: the trace is lost", at("blocked/plugins"), "done: 8 steps"});
}

// tokens_per_second is the same time seen from the other side, and no line is below the fastest.
TEST_F(ProfileTest, StepTimesAreInTheLinesAndTheLeastAtTheEnd) {
  for (const std::string every : {"1", "4"}) {
    const std::string run = "timed" + every;
    const Ended ended = train(run, {"--set", "train.log_every=" + every});
    expect_ended(ended, 0, {"/step  ", ", fastest step "});
    const size_t begin = ended.out.find("fastest step ") + 13;
    double fastest = std::stod(ended.out.substr(begin));
    if (ended.out.substr(begin).find(" ms") < 8) fastest /= 1e3;
    double least = 1e9;
    for (const StepMetrics& m : read_metrics(at(run + "/metrics.jsonl")).value_or_throw()) {
      ASSERT_TRUE(m.step_seconds.has_value());
      EXPECT_NEAR(*m.step_seconds * m.tokens_per_second, 8 * 16, 1e-6);
      least = std::min(least, *m.step_seconds);
    }
    // Three digits are printed.
    EXPECT_LE(fastest, least * 1.006);
    if (every == "1") {
      EXPECT_GE(fastest, least * 0.994);
    }
  }
}

}  // namespace
}  // namespace espalier::test
