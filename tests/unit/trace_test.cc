#include "espalier/train/trace.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "espalier/train/profile.h"

namespace espalier {
namespace {

using Json = nlohmann::json;

std::vector<Json> complete_events(const Trace& trace) {
  std::vector<Json> out;
  const Json json = Json::parse(trace.json({}));
  for (const Json& event : json["traceEvents"]) {
    if (event["ph"] == "X") out.push_back(event);
  }
  return out;
}

TEST(Trace, EventsAndThreadsAreThoseOfChromesFormat) {
  Trace trace;
  trace.start(1000);
  trace.add(TraceThread::kRun, "load", 1000.25, 1000.5, 7);
  trace.add(TraceThread::kDevice, "step", 1000.5, 1002, 7);
  trace.stop();
  const Json json = Json::parse(trace.json({{"run", "a \"b\"\n\xff"}, {"steps", "7:7"}}));
  EXPECT_EQ(json["displayTimeUnit"], "ms");
  EXPECT_EQ(json["otherData"]["run"], "a \"b\"\n\xEF\xBF\xBD");
  EXPECT_EQ(json["otherData"]["steps"], "7:7");
  EXPECT_EQ(json["otherData"]["dropped_events"], 0);
  std::map<int, std::string> names;
  for (const Json& event : json["traceEvents"]) {
    EXPECT_EQ(event["pid"], ::getpid());
    if (event["name"] == "thread_name") names[event["tid"]] = event["args"]["name"];
    if (event["name"] == "process_name") {
      EXPECT_EQ(event["args"]["name"], "espalier");
    }
  }
  EXPECT_EQ(names, (std::map<int, std::string>{{1, "run"}, {2, "loader"}, {3, "device"}}));
  const std::vector<Json> events = complete_events(trace);
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0]["name"], "load");
  EXPECT_EQ(events[0]["tid"], 1);
  EXPECT_EQ(events[0]["ts"], 250000.0);  // microseconds
  EXPECT_EQ(events[0]["dur"], 250000.0);
  EXPECT_EQ(events[0]["args"]["step"], 7);
  EXPECT_EQ(events[1]["tid"], 3);
  EXPECT_EQ(events[1]["ts"], 500000.0);
  EXPECT_EQ(events[1]["dur"], 1500000.0);
}

TEST(Trace, RecordsBetweenStartAndStopOnly) {
  Trace trace;
  EXPECT_FALSE(trace.active());
  trace.add(TraceThread::kRun, "early", 1, 2, 1);
  { const TraceSpan span(trace, "early", 1); }
  trace.start(10);
  EXPECT_TRUE(trace.active());
  trace.add(TraceThread::kRun, "before", 8, 9, 1);
  trace.add(TraceThread::kRun, "cut", 9, 12, 2);
  trace.add(TraceThread::kRun, "backwards", 12, 11, 2);
  trace.stop();
  trace.add(TraceThread::kRun, "late", 13, 14, 3);
  const std::vector<Json> events = complete_events(trace);
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[1]["dur"], 0.0);
  EXPECT_EQ(events[0]["name"], "cut");
  EXPECT_EQ(events[0]["ts"], 0.0);
  EXPECT_EQ(events[0]["dur"], 2e6);
  trace.start(20);
  EXPECT_TRUE(complete_events(trace).empty());
}

TEST(Trace, TouchingEventsDoNotOverlap) {
  Trace trace;
  trace.start(0);
  // No such time is a whole number of nanoseconds.
  const double step = 1e-3 / 3;
  for (int i = 0; i < 1000; ++i) trace.add(TraceThread::kRun, "wait", i * step, (i + 1) * step, i);
  const std::vector<Json> events = complete_events(trace);
  ASSERT_EQ(events.size(), 1000u);
  int64_t end = 0;
  for (const Json& event : events) {
    const auto nanoseconds = [&](const char* key) {
      return std::llround(event[key].get<double>() * 1000);
    };
    EXPECT_GE(nanoseconds("ts"), end);
    end = nanoseconds("ts") + nanoseconds("dur");
  }
}

TEST(Trace, MemoryIsBounded) {
  Trace trace;
  trace.start(0);
  const auto many = static_cast<int64_t>(Trace::kMostEvents) + 3;
  for (int64_t i = 0; i < many; ++i) trace.add(TraceThread::kRun, "put", 1, 2, i);
  EXPECT_EQ(trace.dropped(), 3u);
  EXPECT_NE(trace.json({}).find("\"dropped_events\":3}"), std::string::npos);
}

TEST(Trace, TheLoadersThreadMayAddAtAnyTime) {
  Trace trace;
  auto filled = trace.fills_after(4);
  const auto now = std::chrono::steady_clock::now();
  filled(now, now);  // not recording: step 5 is counted all the same
  trace.start(now_seconds());
  constexpr int kEach = 2000;
  std::thread loader([&] {
    for (int i = 0; i < kEach; ++i) {
      const auto begin = std::chrono::steady_clock::now();
      filled(begin, std::chrono::steady_clock::now());
    }
  });
  for (int i = 0; i < kEach; ++i) const TraceSpan span(trace, "load", i);
  loader.join();
  const std::vector<Json> events = complete_events(trace);
  EXPECT_EQ(events.size(), 2u * kEach);
  for (const Json& event : events) {
    if (event["tid"] != 2) continue;
    EXPECT_EQ(event["name"], "fill");
    EXPECT_EQ(event["args"]["step"], 6);
    break;
  }
}

TEST(StepRange, IsTwoNumbersFromOneOn) {
  EXPECT_EQ(*parse_step_range("2:4"), (StepRange{2, 4}));
  EXPECT_EQ(*parse_step_range("5:5"), (StepRange{5, 5}));
  const std::pair<const char*, const char*> bad[] = {
      {"", "START:STOP"},     {"3", "START:STOP"},     {":3", "START:STOP"},
      {"3:", "START:STOP"},   {"a:3", "START:STOP"},   {"1:2:3", "START:STOP"},
      {"1 :2", "START:STOP"}, {"1.5:2", "START:STOP"}, {"1:99999999999999999999", "START:STOP"},
      {"0:3", "from 1"},      {"-2:3", "from 1"},      {"4:2", "past STOP"}};
  for (const auto& [text, word] : bad) {
    const auto range = parse_step_range(text);
    ASSERT_FALSE(range) << text;
    EXPECT_EQ(range.failure().code, Code::kInvalidArgument);
    EXPECT_NE(range.failure().message.find(std::string("--profile ") + text), std::string::npos);
    EXPECT_NE(range.failure().message.find(word), std::string::npos) << range.failure().message;
  }
}

TEST(StepRange, LiesAheadOfTheRunAndWithinIt) {
  EXPECT_TRUE(check_step_range({1, 8}, 0, 8));
  EXPECT_TRUE(check_step_range({5, 5}, 4, 8));
  const auto beyond = check_step_range({2, 9}, 0, 8);
  ASSERT_FALSE(beyond);
  EXPECT_NE(beyond.failure().message.find("the run has 8 steps (train.steps"), std::string::npos);
  const auto behind = check_step_range({4, 6}, 4, 8);
  ASSERT_FALSE(behind);
  EXPECT_EQ(behind.failure().code, Code::kInvalidArgument);
  EXPECT_NE(behind.failure().message.find("after step 4; START must be at least 5"),
            std::string::npos);
}

}  // namespace
}  // namespace espalier
