#include "espalier/base/child_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <deque>

namespace espalier {
namespace {

constexpr size_t kQuotedLines = 20, kKeptBytes = 64 << 10;

struct Pipe {
  int read_end = -1, write_end = -1;
  Status open() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) {
      return Failure{Code::kInternal, fmt::format("cannot make a pipe: {}", std::strerror(errno))};
    }
    read_end = ends[0];
    write_end = ends[1];
    return {};
  }
  ~Pipe() {
    for (int* end : {&read_end, &write_end}) close_end(*end);
  }
  static void close_end(int& end) {
    if (end >= 0) ::close(end);
    end = -1;
  }
};

bool write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(fd, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    text.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

// One byte before the text: success, or a failure's code.
constexpr char kSuccess = 'S', kFirstCode = 'a';

[[noreturn]] void be_child(const std::function<Result<std::string>()>& body, int result_fd,
                           int error_fd, pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);
  ::dup2(error_fd, STDERR_FILENO);
  std::string reply;
  const auto fail = [&](Code code, std::string_view message) {
    reply = static_cast<char>(kFirstCode + static_cast<int>(code)) + std::string(message);
  };
  try {
    const Result<std::string> result = body();
    if (result.ok()) {
      reply = kSuccess + *result;
    } else {
      fail(result.failure().code, result.failure().message);
    }
  } catch (const Error& error) {
    fail(error.code(), error.what());
  } catch (const std::exception& error) {
    fail(Code::kInternal, error.what());
  }
  std::fflush(nullptr);
  ::_exit(write_all(result_fd, reply) ? 0 : 1);
}

// Reads both pipes until the child has closed them; of the second the end is kept.
void read_both(int result_fd, int error_fd, std::string& result, std::string& errors) {
  std::array<pollfd, 2> files = {pollfd{result_fd, POLLIN, 0}, pollfd{error_fd, POLLIN, 0}};
  std::array<char, 64 << 10> buffer;
  while (files[0].fd >= 0 || files[1].fd >= 0) {
    if (::poll(files.data(), files.size(), -1) < 0) {
      if (errno == EINTR) continue;
      return;
    }
    for (size_t i = 0; i < files.size(); ++i) {
      if (files[i].fd < 0 || files[i].revents == 0) continue;
      const ssize_t n = ::read(files[i].fd, buffer.data(), buffer.size());
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) {
        files[i].fd = -1;
        continue;
      }
      std::string& text = i == 0 ? result : errors;
      text.append(buffer.data(), static_cast<size_t>(n));
      if (i == 1 && text.size() > 2 * kKeptBytes) text.erase(0, text.size() - kKeptBytes);
    }
  }
}

std::string last_lines(std::string_view text) {
  std::deque<std::string> lines;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    if (end != 0) lines.emplace_back(text.substr(0, end));
    if (lines.size() > kQuotedLines) lines.pop_front();
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  std::string out;
  for (const std::string& line : lines) out += "\n  " + line;
  return out.empty() ? " It wrote nothing to standard error."
                     : " The last that it wrote to standard error:" + out;
}

}  // namespace

Result<std::string> run_in_child(std::string_view what,
                                 const std::function<Result<std::string>()>& body) {
  Pipe results, errors;
  ESPALIER_TRY(results.open());
  ESPALIER_TRY(errors.open());
  std::fflush(nullptr);  // or the child would write what is in the buffers again
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) {
    return Failure{Code::kInternal,
                   fmt::format("cannot start a process for {}: {}", what, std::strerror(errno))};
  }
  if (child == 0) be_child(body, results.write_end, errors.write_end, parent);
  Pipe::close_end(results.write_end);
  Pipe::close_end(errors.write_end);
  std::string reply, said;
  read_both(results.read_end, errors.read_end, reply, said);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0 && !reply.empty()) {
    const char kind = reply[0];
    reply.erase(0, 1);
    if (kind == kSuccess) return reply;
    return Failure{static_cast<Code>(kind - kFirstCode), std::move(reply)};
  }
  const std::string how =
      WIFSIGNALED(status)
          ? fmt::format("was ended by signal {} ({}){}", WTERMSIG(status),
                        ::strsignal(WTERMSIG(status)),
                        WTERMSIG(status) == SIGKILL ? ", as where memory runs out" : "")
          : fmt::format("ended its process with exit status {}", WEXITSTATUS(status));
  return Failure{Code::kInternal, fmt::format("{} {}.{}", what, how, last_lines(said))};
}

}  // namespace espalier
