// The real program as a child process: what it prints, how it ends, and signals to it.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "espalier/base/file.h"

namespace espalier::test {

struct Ended {
  int status = -1;  // exit status; -1 where a signal ended it
  int signal = 0;
  std::string out, err;
};

struct ChildOptions {
  std::map<std::string, std::string> environment{};  // beside this process's
  uint64_t file_size_limit = 0;                      // bytes of any one file; 0: no limit
};

// One run of the program; killed when destroyed. Output goes to files beside `prefix`.
class Child {
 public:
  Child(const std::vector<std::string>& arguments, std::filesystem::path prefix,
        const ChildOptions& options = {})
      : out_(prefix.string() + ".out"), err_(prefix.string() + ".err") {
    std::vector<std::string> all = {ESPALIER_PROGRAM};
    all.insert(all.end(), arguments.begin(), arguments.end());
    std::vector<char*> argv;
    for (std::string& text : all) argv.push_back(text.data());
    argv.push_back(nullptr);
    pid_ = ::fork();
    if (pid_ != 0) return;
    for (const auto& [name, value] : options.environment) {
      ::setenv(name.c_str(), value.c_str(), 1);
    }
    if (options.file_size_limit > 0) {
      const rlimit limit{options.file_size_limit, options.file_size_limit};
      ::setrlimit(RLIMIT_FSIZE, &limit);
    }
    redirect(out_, STDOUT_FILENO);
    redirect(err_, STDERR_FILENO);
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  ~Child() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  void send(int signal) const { ::kill(pid_, signal); }
  // Waits until `done` is true; false when the child ends before that.
  bool wait_until(const std::function<bool()>& done) {
    while (!done()) {
      if (::waitpid(pid_, &wait_status_, WNOHANG) == pid_) {
        pid_ = -1;
        return done();
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return true;
  }
  Ended wait() {
    if (pid_ > 0) ::waitpid(pid_, &wait_status_, 0);
    pid_ = -1;
    Ended ended;
    if (WIFEXITED(wait_status_)) ended.status = WEXITSTATUS(wait_status_);
    if (WIFSIGNALED(wait_status_)) ended.signal = WTERMSIG(wait_status_);
    ended.out = read_file(out_).value_or_throw();
    ended.err = read_file(err_).value_or_throw();
    return ended;
  }

 private:
  static void redirect(const std::filesystem::path& path, int to) {
    ::dup2(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644), to);
  }
  std::filesystem::path out_, err_;
  pid_t pid_ = -1;
  int wait_status_ = 0;
};

// Expects an exit status, and every one of `parts` in what was printed.
inline void expect_ended(const Ended& ended, int status, const std::vector<std::string>& parts) {
  EXPECT_EQ(ended.status, status) << "signal " << ended.signal << "\n" << ended.out << ended.err;
  for (const std::string& part : parts) {
    EXPECT_TRUE((ended.out + ended.err).find(part) != std::string::npos)
        << "'" << part << "' is not in:\n"
        << ended.out << ended.err;
  }
}

}  // namespace espalier::test
