// Which plugins have a profiler, and that those for devices that are not here open, run and give an
// XSpace. Each is loaded in a child process: two of XLA's plugins do not share one well.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>

#include "espalier/pjrt/plugin.h"
#include "espalier/pjrt/profiler.h"

namespace espalier {
namespace {

enum Outcome { kRecorded = 10, kNone = 11, kFailed = 12 };

Outcome record(const char* name) {
  const auto plugin = Plugin::load(name);
  if (!plugin) return kFailed;
  if (!Profiler::available(**plugin)) return kNone;
  const auto bytes = [&]() -> Result<std::string> {
    ESPALIER_ASSIGN(Profiler profiler, Profiler::create(**plugin));
    ESPALIER_TRY(profiler.start());
    ESPALIER_TRY(profiler.stop());
    return profiler.collect();
  }();
  if (!bytes) std::fprintf(stderr, "%s\n", bytes.failure().message.c_str());
  return bytes && !bytes->empty() ? kRecorded : kFailed;
}

int outcome_in_child(const char* name) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::setenv("ALLOW_MULTIPLE_LIBTPU_LOAD", "1", 1);
    ::setenv("TPU_SKIP_MDS_QUERY", "1", 1);
    ::_exit(record(name));
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(PluginProfiler, CpuHasNone) {
  if (const auto path = plugin_path("cpu"); !path) GTEST_SKIP() << path.failure().message;
  EXPECT_EQ(outcome_in_child("cpu"), kNone);
}

TEST(PluginProfiler, CudaRecords) {
  if (const auto path = plugin_path("cuda"); !path) GTEST_SKIP() << path.failure().message;
  EXPECT_EQ(outcome_in_child("cuda"), kRecorded);
}

TEST(PluginProfiler, TpuRecords) {
  if (const auto path = plugin_path("tpu"); !path) GTEST_SKIP() << path.failure().message;
  EXPECT_EQ(outcome_in_child("tpu"), kRecorded);
}

}  // namespace
}  // namespace espalier
