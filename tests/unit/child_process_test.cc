// Work in a child process: what comes back, and what is said when the child ends in its own way.
#include "espalier/base/child_process.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>

namespace espalier {
namespace {

Failure failure_of(const std::function<Result<std::string>()>& body) {
  const auto result = run_in_child("the compiler", body);
  EXPECT_FALSE(result.ok());
  return result.ok() ? Failure() : result.failure();
}

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

TEST(RunInChild, ReturnsWhatTheBodyReturns) {
  EXPECT_EQ(run_in_child("x", [] { return std::string("done"); }).value_or_throw(), "done");
  EXPECT_EQ(run_in_child("x", [] { return std::string(); }).value_or_throw(), "");
  // More than pipes hold, on both of them.
  const std::string large(3 << 20, 'y');
  auto both = run_in_child("x", [&]() -> Result<std::string> {
    for (int i = 0; i < 5000; ++i) std::fprintf(stderr, "line %d of chatter\n", i);
    return large;
  });
  EXPECT_EQ(std::move(both).value_or_throw(), large);
}

TEST(RunInChild, TheParentIsNotChanged) {
  int value = 1;
  run_in_child("x", [&] {
    value = 2;
    return std::to_string(::getpid());
  }).value_or_throw();
  EXPECT_EQ(value, 1);
}

TEST(RunInChild, FailuresAndExceptionsKeepCodeAndMessage) {
  const Failure full = failure_of([]() -> Result<std::string> {
    return Failure{Code::kResourceExhausted, "out of memory"};
  });
  EXPECT_EQ(full.code, Code::kResourceExhausted);
  EXPECT_EQ(full.message, "out of memory");
  const Failure thrown =
      failure_of([]() -> Result<std::string> { throw Error("[dot] apart", Code::kNotFound); });
  EXPECT_EQ(thrown.code, Code::kNotFound);
  EXPECT_EQ(thrown.message, "[dot] apart");
  const Failure other =
      failure_of([]() -> Result<std::string> { throw std::runtime_error("strange"); });
  EXPECT_EQ(other.code, Code::kInternal);
  EXPECT_EQ(other.message, "strange");
}

TEST(RunInChild, AnAbortIsAMessageWithItsLastLines) {
  const Failure ended = failure_of([]() -> Result<std::string> {
    for (int i = 0; i < 100; ++i) std::fprintf(stderr, "chatter %d\n", i);
    std::fprintf(stderr, "Check failed: shape.IsArray()\n");
    std::abort();
  });
  EXPECT_EQ(ended.code, Code::kInternal);
  EXPECT_TRUE(ended.message.starts_with("the compiler was ended by signal 6 (Aborted)."))
      << ended.message;
  EXPECT_TRUE(has(ended.message, "\n  Check failed: shape.IsArray()")) << ended.message;
  EXPECT_TRUE(has(ended.message, "chatter 99"));
  EXPECT_FALSE(has(ended.message, "chatter 50")) << ended.message;
}

TEST(RunInChild, OtherEndsAreMessagesToo) {
  const Failure exited = failure_of([]() -> Result<std::string> { ::_exit(3); });
  EXPECT_EQ(exited.message,
            "the compiler ended its process with exit status 3. It wrote nothing to standard "
            "error.");
  const Failure killed = failure_of([]() -> Result<std::string> {
    ::raise(SIGKILL);
    return std::string();
  });
  EXPECT_TRUE(has(killed.message, "signal 9 (Killed), as where memory runs out")) << killed.message;
}

}  // namespace
}  // namespace espalier
