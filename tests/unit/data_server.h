// An HTTP server on the loopback, for tests of downloads.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "espalier/base/error.h"

namespace espalier {

// Serves one content under every path, a request a connection.
class Server {
 public:
  explicit Server(std::string content) : content_(std::move(content)) {
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
  ~Server() {
    ::shutdown(listener_, SHUT_RDWR);
    thread_.join();
    ::close(listener_);
  }

  std::string url(const std::string& path = "/file") const {
    return "http://127.0.0.1:" + std::to_string(port_) + path;
  }
  std::vector<std::string> requests() {
    const std::lock_guard lock(mutex_);
    return requests_;
  }

  // Set before the first request.
  size_t cut_after = std::string::npos;  // each answer's body breaks off after so many bytes
  bool ranges = true;
  int status = 200;             // other: an error with this status
  int failures = 0;             // so many requests are answered with 503 first
  std::string redirect_digest;  // "/start" redirects to "/file", naming this digest

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
      const std::string answer = answer_to(request);
      for (size_t sent = 0; sent < answer.size();) {
        const ssize_t n =
            ::send(connection, answer.data() + sent, answer.size() - sent, MSG_NOSIGNAL);
        if (n <= 0) break;
        sent += static_cast<size_t>(n);
      }
      ::close(connection);
    }
  }

  std::string answer_to(const std::string& request) {
    {
      const std::lock_guard lock(mutex_);
      requests_.push_back(request);
    }
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
    const size_t at = request.find("Range: bytes=");
    size_t from = 0;
    std::string head = "HTTP/1.1 200 OK\r\n";
    if (ranges && at != std::string::npos) {
      from = std::stoul(request.substr(at + 13));
      if (from >= content_.size()) {
        return "HTTP/1.1 416 Range Not Satisfiable\r\nContent-Range: bytes */" +
               std::to_string(content_.size()) + "\r\nContent-Length: 0\r\n" + close + "\r\n";
      }
      head = "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes " + std::to_string(from) + "-" +
             std::to_string(content_.size() - 1) + "/" + std::to_string(content_.size()) + "\r\n";
    }
    head += "Content-Length: " + std::to_string(content_.size() - from) + "\r\n" + close + "\r\n";
    return head + content_.substr(from, cut_after);
  }

  std::string content_;
  int listener_ = -1;
  int port_ = 0;
  std::thread thread_;
  std::mutex mutex_;
  std::vector<std::string> requests_;
};

}  // namespace espalier
