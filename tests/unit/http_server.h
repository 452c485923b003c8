// HTTP servers on the loopback, for tests of downloads.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "espalier/base/error.h"

namespace espalier {

// Answers each connection's request by a function, which its one thread calls.
class LoopbackServer {
 public:
  using Answer = std::function<std::string(const std::string& request)>;

  explicit LoopbackServer(Answer answer) : answer_(std::move(answer)) {
    ::setenv("no_proxy", "127.0.0.1", 1);
    listener_ = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof(address);
    if (::bind(listener_, reinterpret_cast<sockaddr*>(&address), length) != 0 ||
        ::listen(listener_, 8) != 0 ||
        ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &length) != 0) {
      throw Error("the test's server cannot listen");
    }
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { serve(); });
  }
  ~LoopbackServer() {
    ::shutdown(listener_, SHUT_RDWR);
    thread_.join();
    ::close(listener_);
  }
  LoopbackServer(const LoopbackServer&) = delete;
  LoopbackServer& operator=(const LoopbackServer&) = delete;

  std::string url(const std::string& path = "") const {
    return "http://127.0.0.1:" + std::to_string(port_) + path;
  }
  // The first line and the headers of every request so far.
  std::vector<std::string> requests() {
    const std::lock_guard lock(mutex_);
    return requests_;
  }

 private:
  void serve() {
    for (;;) {
      const int connection = ::accept(listener_, nullptr, nullptr);
      if (connection < 0) return;
      std::string request;
      char buffer[4096];
      while (request.find("\r\n\r\n") == std::string::npos) {
        const ssize_t n = ::recv(connection, buffer, sizeof(buffer), 0);
        if (n <= 0) break;
        request.append(buffer, static_cast<size_t>(n));
      }
      {
        const std::lock_guard lock(mutex_);
        requests_.push_back(request);
      }
      const std::string answer = answer_(request);
      for (size_t sent = 0; sent < answer.size();) {
        const ssize_t n =
            ::send(connection, answer.data() + sent, answer.size() - sent, MSG_NOSIGNAL);
        if (n <= 0) break;
        sent += static_cast<size_t>(n);
      }
      ::close(connection);
    }
  }

  Answer answer_;
  int listener_ = -1;
  int port_ = 0;
  std::thread thread_;
  std::mutex mutex_;
  std::vector<std::string> requests_;
};

// An answer with `content`, or with its part from where the request's "Range: bytes=N-" begins;
// the body breaks off after `cut_after` bytes.
inline std::string content_answer(const std::string& request, const std::string& content,
                                  size_t cut_after, bool ranges = true) {
  const std::string close = "Connection: close\r\n\r\n";
  const std::string size = std::to_string(content.size());
  const size_t at = ranges ? request.find("Range: bytes=") : std::string::npos;
  size_t from = 0;
  std::string head = "HTTP/1.1 200 OK\r\n";
  if (at != std::string::npos) {
    from = std::stoul(request.substr(at + 13));
    if (from >= content.size()) {
      return "HTTP/1.1 416 Range Not Satisfiable\r\nContent-Range: bytes */" + size +
             "\r\nContent-Length: 0\r\n" + close;
    }
    head = "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes " + std::to_string(from) + "-" +
           std::to_string(content.size() - 1) + "/" + size + "\r\n";
  }
  head += "Content-Length: " + std::to_string(content.size() - from) + "\r\n" + close;
  return head + content.substr(from, cut_after);
}

// Serves contents by path; anything else is 404.
class HttpServer {
 public:
  // `cut_after`: each answer's body breaks off after so many bytes.
  explicit HttpServer(std::map<std::string, std::string> contents,
                      size_t cut_after = std::string::npos)
      : contents_(std::move(contents)),
        cut_after_(cut_after),
        server_([this](const std::string& request) { return answer_to(request); }) {}
  std::string url() const { return server_.url(); }
  std::vector<std::string> requests() { return server_.requests(); }

 private:
  std::string answer_to(const std::string& request) const {
    const size_t path = request.find(' ') + 1;
    const auto found = contents_.find(request.substr(path, request.find(' ', path) - path));
    if (found == contents_.end()) {
      return "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    }
    return content_answer(request, found->second, cut_after_);
  }

  std::map<std::string, std::string> contents_;
  size_t cut_after_;
  LoopbackServer server_;  // last: its thread uses what stands above
};

// Serves one content under every path, with the faults that are set.
class Server {
 public:
  explicit Server(std::string content)
      : content_(std::move(content)),
        server_([this](const std::string& request) { return answer_to(request); }) {}
  std::string url(const std::string& path = "/file") const { return server_.url(path); }
  std::vector<std::string> requests() { return server_.requests(); }

  // Set before the first request.
  size_t cut_after = std::string::npos;  // each answer's body breaks off after so many bytes
  bool ranges = true;
  int status = 200;             // other: an error with this status
  int failures = 0;             // so many requests are answered with 503 first
  std::string redirect_digest;  // "/start" redirects to "/file", naming this digest

 private:
  std::string answer_to(const std::string& request) {
    const std::string close = "Connection: close\r\n";
    if (request.starts_with("GET /start")) {
      return "HTTP/1.1 302 Found\r\nLocation: /file\r\nX-Linked-ETag: \"" + redirect_digest +
             "\"\r\nContent-Length: 0\r\n" + close + "\r\n";
    }
    if (status != 200) {
      return "HTTP/1.1 " + std::to_string(status) + " No\r\nContent-Length: 4\r\n" + close +
             "\r\noops";
    }
    if (failures-- > 0) {
      return "HTTP/1.1 503 Busy\r\nContent-Length: 4\r\n" + close + "\r\nbusy";
    }
    return content_answer(request, content_, cut_after, ranges);
  }

  std::string content_;
  LoopbackServer server_;  // last: its thread uses what stands above
};

}  // namespace espalier
