// Saves that are killed or run out of disk at every point: an earlier checkpoint always survives.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/statvfs.h>
#include <sys/wait.h>

#include <csignal>
#include <fstream>
#include <functional>

#include "espalier/checkpoint/folder.h"
#include "tests/unit/checkpoint_fixture.h"

namespace espalier {
namespace {
namespace fs = std::filesystem;

constexpr int kCannot = 77;  // exit status of a child that may not do what the test needs

enum class Ending { kKilled, kDone, kFailed, kCannot };

// Runs `body` in a child process and kills it (SIGKILL) at its `stops`-th stop; each system call
// stops twice, before and after it.
Ending run_killed(int stops, const std::function<bool()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) ::_exit(kCannot);
    ::raise(SIGSTOP);
    ::_exit(body() ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  for (int i = 0; i < stops && WIFSTOPPED(status); ++i) {
    ::ptrace(PTRACE_SYSCALL, child, nullptr, nullptr);
    ::waitpid(child, &status, 0);
  }
  if (WIFSTOPPED(status)) {
    ::kill(child, SIGKILL);
    ::waitpid(child, &status, 0);
    return Ending::kKilled;
  }
  if (WIFSIGNALED(status)) return Ending::kFailed;
  if (WEXITSTATUS(status) == kCannot) return Ending::kCannot;
  return WEXITSTATUS(status) == 0 ? Ending::kDone : Ending::kFailed;
}

class CheckpointCrashTest : public CheckpointTest {
 protected:
  // Kills `body` at every point of its run, each time from the state that `prepare` makes; then
  // `latest` must open, whole, without any warning, and another save must go through.
  void kill_everywhere(const std::function<void()>& prepare, const std::function<bool()>& body,
                       const std::function<void(const CheckpointReader&)>& check) {
    for (int stops = 0;; ++stops) {
      fs::remove_all(root_);
      prepare();
      const Ending ending = run_killed(stops, body);
      if (ending == Ending::kCannot) GTEST_SKIP() << "ptrace is not permitted here";
      ASSERT_NE(ending, Ending::kFailed) << "after " << stops << " stops";
      const auto reader = CheckpointReader::open(root_, "latest");
      ASSERT_TRUE(reader.ok()) << "after " << stops << " stops: " << reader.failure().message;
      ASSERT_TRUE(reader->warnings().empty()) << reader->warnings()[0];
      ASSERT_EQ(sample_problem(*reader), "") << "after " << stops << " stops";
      check(*reader);
      save(100);
      for (const std::string& name : entry_names(root_)) {
        ASSERT_NE(name[0], '.') << "left over after " << stops << " stops: " << name;
      }
      if (ending == Ending::kDone) {
        EXPECT_GT(stops, 20);  // else nothing was interrupted
        return;
      }
    }
  }
};

TEST_F(CheckpointCrashTest, KilledAnywhereWhileSavingAndDeleting) {
  std::set<int64_t> seen;
  kill_everywhere([&] { save(1); }, [&] { return save_sample(root_, 2, 2, {.keep = 1}).ok(); },
                  [&](const CheckpointReader& reader) { seen.insert(reader.step()); });
  if (!IsSkipped()) {
    EXPECT_EQ(seen, (std::set<int64_t>{1, 2}));
  }
}

TEST_F(CheckpointCrashTest, KilledAnywhereWhileReplacingAStep) {
  std::set<int> seeds;
  kill_everywhere([&] { save(1); }, [&] { return save_sample(root_, 1, 50).ok(); },
                  [&](const CheckpointReader& reader) {
                    seeds.insert(reader.metadata().at("seed").get<int>());
                  });
  if (!IsSkipped()) {
    EXPECT_EQ(seeds, (std::set<int>{1, 50}));
  }
}

TEST_F(CheckpointCrashTest, KilledAnywhereWhereNamesCannotBeExchanged) {
  std::set<int> seeds;
  const auto prepare = [&] {
    ASSERT_TRUE(save_sample(folder_ / "other", 1, 50).ok());
    save(1);
  };
  const auto body = [&] {
    const fs::path temporary = side_path(root_, "1", "tmp");
    fs::rename(folder_ / "other" / "1", temporary);
    return move_into_place(root_, "1", false).ok();
  };
  kill_everywhere(prepare, body, [&](const CheckpointReader& reader) {
    seeds.insert(reader.metadata().at("seed").get<int>());
  });
  if (!IsSkipped()) {
    EXPECT_EQ(seeds, (std::set<int>{1, 50}));
  }
}

TEST_F(CheckpointCrashTest, KilledBetweenTwoPieces) {
  save(1);
  const pid_t child = ::fork();
  if (child == 0) {
    auto writer = CheckpointWriter::begin(root_, 2, sample_tensors());
    const auto first = sample_tensors()[0].tensor;
    if (!writer || !writer->write(first.name, sample_tensor(first, 2))) ::_exit(1);
    ::raise(SIGKILL);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(entry_names(root_).size(), 3u);  // the left-over shows that the kill came in between
  EXPECT_EQ(opened_step("latest"), 1);
  save(3);
  EXPECT_EQ(entry_names(root_), (std::set<std::string>{"1", "3", "latest"}));
}

// Gives this process mounts of its own: as root, or as the root of a user namespace of its own.
bool own_mounts() {
  if (::unshare(CLONE_NEWNS) != 0) {
    const std::string user = "0 " + std::to_string(::getuid()) + " 1";
    const std::string group = "0 " + std::to_string(::getgid()) + " 1";
    if (::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return false;
    // The kernel takes each of these in one write, and the group's map only after "deny".
    if (!(std::ofstream("/proc/self/setgroups") << "deny" << std::flush) ||
        !(std::ofstream("/proc/self/uid_map") << user << std::flush) ||
        !(std::ofstream("/proc/self/gid_map") << group << std::flush)) {
      return false;
    }
  }
  return ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
}

// Saves on a file system of 512 KiB with `pages` of 4 KiB left, for rising `pages`. Returns what
// went wrong, or nothing.
std::string save_on_full_disks(const fs::path& mount, int* failures) {
  const fs::path root = mount / "checkpoints";
  if (const auto first = save_sample(root, 1, 1); !first) return first.failure().message;
  for (int pages = 0; pages < 100; ++pages) {
    fs::remove(mount / "filler");
    struct statvfs info {};
    ::statvfs(mount.c_str(), &info);
    const auto free_pages = static_cast<int>(info.f_bfree);
    {
      std::ofstream filler(mount / "filler", std::ios::binary);
      filler << std::string(static_cast<size_t>(std::max(0, free_pages - pages)) * 4096, 'x');
    }
    const auto saved = save_sample(root, 2, 2);
    const auto reader = CheckpointReader::open(root, "latest");
    if (!reader) return reader.failure().message;
    if (!reader->warnings().empty()) return reader->warnings()[0];
    if (const std::string problem = sample_problem(*reader); !problem.empty()) return problem;
    if (saved.ok()) return reader->step() == 2 ? "" : "the save went through, latest did not";
    ++*failures;
    const Failure& failure = saved.failure();
    if (failure.code != Code::kResourceExhausted ||
        failure.message.find("No space left on device") == std::string::npos ||
        failure.message.find("earlier checkpoints are untouched") == std::string::npos) {
      return "another failure: " + failure.message;
    }
    if (entry_names(root) != std::set<std::string>{"1", "latest"}) return "left-overs remain";
  }
  return "no save ever went through";
}

TEST_F(CheckpointCrashTest, DiskFullAtEveryPoint) {
  const fs::path mount = folder_ / "disk", report = folder_ / "report";
  fs::create_directories(mount);
  const pid_t child = ::fork();
  if (child == 0) {
    if (!own_mounts() || ::mount("tmpfs", mount.c_str(), "tmpfs", 0, "size=512k") != 0) {
      ::_exit(kCannot);
    }
    int failures = 0;
    std::string problem = save_on_full_disks(mount, &failures);
    // A save takes 14 pages or so: each of the writes must have been the one that failed.
    if (problem.empty() && failures < 10)
      problem = "only " + std::to_string(failures) + " failures";
    std::ofstream(report) << problem;
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == kCannot)
    GTEST_SKIP() << "mounting a small tmpfs is not permitted here";
  const auto problem = read_file(report);
  ASSERT_TRUE(problem.ok()) << problem.failure().message;
  EXPECT_EQ(*problem, "");
}

}  // namespace
}  // namespace espalier
