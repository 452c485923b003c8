// An HTTP server on the loopback for tests of downloads.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "espalier/base/error.h"

namespace espalier {

// Serves contents by path, a request a connection; anything else is 404. Knows "Range: bytes=N-".
class HttpServer {
 public:
  // `cut_after`: each answer's body breaks off after so many bytes.
  explicit HttpServer(std::map<std::string, std::string> contents,
                      size_t cut_after = std::string::npos)
      : contents_(std::move(contents)), cut_after_(cut_after) {
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
  ~HttpServer() {
    ::shutdown(listener_, SHUT_RDWR);
    thread_.join();
    ::close(listener_);
  }
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }
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
    const size_t path = request.find(' ') + 1;
    const auto found = contents_.find(request.substr(path, request.find(' ', path) - path));
    if (found == contents_.end()) {
      return "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    }
    const std::string& content = found->second;
    const size_t range = request.find("Range: bytes=");
    const size_t from = range == std::string::npos ? 0 : std::stoul(request.substr(range + 13));
    std::string head = "HTTP/1.1 200 OK\r\n";
    if (range != std::string::npos) {
      const std::string size = std::to_string(content.size());
      if (from >= content.size()) {
        return "HTTP/1.1 416 Range Not Satisfiable\r\nContent-Range: bytes */" + size +
               "\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
      }
      head = "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes " + std::to_string(from) + "-" +
             std::to_string(content.size() - 1) + "/" + size + "\r\n";
    }
    head += "Content-Length: " + std::to_string(content.size() - from) +
            "\r\nConnection: close\r\n\r\n";
    return head + content.substr(from, cut_after_);
  }

  std::map<std::string, std::string> contents_;
  size_t cut_after_;
  int listener_ = -1;
  int port_ = 0;
  std::thread thread_;
  std::mutex mutex_;
  std::vector<std::string> requests_;
};

}  // namespace espalier
