#include "espalier/data/download.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <thread>

#include "data_testing.h"
#include "espalier/base/sha256.h"

namespace espalier {
namespace {

namespace fs = std::filesystem;

// An HTTP server on the loopback that serves one content, a request a connection.
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

std::string long_content() {
  std::string out;
  for (int i = 0; i < 60000; ++i) out += std::to_string(i) + "\n";
  return out;
}

DownloadOptions quick(std::string sha256 = "") {
  DownloadOptions options;
  options.sha256 = std::move(sha256);
  options.pause = std::chrono::milliseconds(1);
  return options;
}

class DownloadTest : public testing::Test {
 protected:
  const std::string content_ = long_content();
  const std::string digest_ = sha256_hex(content_);
  TemporaryFolder folder_;
  const fs::path target_ = folder_ / "sub/file.txt";
  const fs::path part_ = folder_ / "sub/file.txt.part";
  const fs::path bad_ = folder_ / "sub/file.txt.bad";
};

TEST_F(DownloadTest, FetchesChecksAndNotesTheDigest) {
  Server server(content_);
  uint64_t done = 0, all = 0;
  DownloadOptions options = quick(digest_);
  options.progress = [&](uint64_t d, uint64_t a) {
    EXPECT_GE(d, done);
    done = d;
    all = a;
  };
  const auto got = download(server.url(), target_, options).value_or_throw();
  EXPECT_EQ(read_file(target_).value_or_throw(), content_);
  EXPECT_TRUE(got.checked);
  EXPECT_EQ(got.sha256, digest_);
  EXPECT_EQ(done, content_.size());
  EXPECT_EQ(all, content_.size());
  EXPECT_EQ(read_file(target_.string() + ".sha256").value_or_throw(), digest_ + "  file.txt\n");
  EXPECT_FALSE(fs::exists(part_));
  EXPECT_EQ(server.requests().size(), 1U);
}

TEST_F(DownloadTest, GoesOnWhereTheConnectionBroke) {
  Server server(content_);
  server.cut_after = 100000;
  const auto got = download(server.url(), target_, quick(digest_)).value_or_throw();
  EXPECT_EQ(read_file(target_).value_or_throw(), content_);
  const auto requests = server.requests();
  ASSERT_EQ(requests.size(), (content_.size() + 99999) / 100000);
  EXPECT_EQ(requests[0].find("Range:"), std::string::npos);
  EXPECT_NE(requests[1].find("Range: bytes=100000-"), std::string::npos);
  EXPECT_NE(requests[2].find("Range: bytes=200000-"), std::string::npos);
  EXPECT_TRUE(got.checked);
}

TEST_F(DownloadTest, GoesOnFromAnEarlierCallsPart) {
  Server server(content_);
  fs::create_directories(folder_ / "sub");
  folder_.write("sub/file.txt.part", content_.substr(0, 1234));
  const auto got = download(server.url(), target_, quick(digest_)).value_or_throw();
  EXPECT_EQ(got.resumed_at, 1234U);
  EXPECT_EQ(read_file(target_).value_or_throw(), content_);
  ASSERT_EQ(server.requests().size(), 1U);
  EXPECT_NE(server.requests()[0].find("Range: bytes=1234-"), std::string::npos);
}

TEST_F(DownloadTest, StartsOverWhereTheServerIgnoresRanges) {
  Server server(content_);
  server.ranges = false;
  fs::create_directories(folder_ / "sub");
  folder_.write("sub/file.txt.part", std::string(content_.size() + 10, 'x'));
  EXPECT_TRUE(download(server.url(), target_, quick(digest_)).ok());
  EXPECT_EQ(read_file(target_).value_or_throw(), content_);
}

TEST_F(DownloadTest, TakesAPartThatIsWholeAndDropsOneThatIsTooLong) {
  Server server(content_);
  fs::create_directories(folder_ / "sub");
  folder_.write("sub/file.txt.part", content_);
  EXPECT_TRUE(download(server.url(), target_, quick(digest_)).ok());
  fs::remove(target_);
  folder_.write("sub/file.txt.part", content_ + "more");
  EXPECT_TRUE(download(server.url(), target_, quick(digest_)).ok());
  EXPECT_EQ(read_file(target_).value_or_throw(), content_);
}

TEST_F(DownloadTest, AWrongDigestPutsTheFileAside) {
  Server server(content_);
  const std::string wrong(64, '0');
  expect_failure(download(server.url(), target_, quick(wrong)), Code::kDataLoss,
                 {target_.string(), digest_, wrong, ".bad"});
  EXPECT_FALSE(fs::exists(target_));
  EXPECT_FALSE(fs::exists(part_));
  EXPECT_TRUE(fs::exists(bad_));
  expect_failure(download(server.url(), target_, quick("123")), Code::kInvalidArgument,
                 {"64 hexadecimal digits", "123"});
}

TEST_F(DownloadTest, TheDigestOfARedirectIsCompared) {
  Server server(content_);
  server.redirect_digest = digest_;
  const auto got = download(server.url("/start"), target_, quick()).value_or_throw();
  EXPECT_TRUE(got.checked);
  fs::remove(target_);

  Server wrong(content_);
  wrong.redirect_digest = std::string(64, 'a');
  expect_failure(download(wrong.url("/start"), target_, quick()), Code::kDataLoss, {"aaaa"});

  Server silent(content_);
  EXPECT_FALSE(download(silent.url(), target_, quick()).value_or_throw().checked);
}

TEST_F(DownloadTest, AFileThatIsThereIsKeptUnlessItWasAltered) {
  Server server(content_);
  EXPECT_TRUE(download(server.url(), target_, quick()).ok());
  EXPECT_TRUE(download(server.url(), target_, quick()).value_or_throw().already_there);
  EXPECT_EQ(server.requests().size(), 1U);
  folder_.write("sub/file.txt", "altered");
  expect_failure(download(server.url(), target_, quick()), Code::kDataLoss, {"the disk", digest_});
  EXPECT_TRUE(fs::exists(bad_));
  // Put aside, it can be fetched again.
  EXPECT_FALSE(download(server.url(), target_, quick()).value_or_throw().already_there);
}

TEST_F(DownloadTest, TriesAgainWhereTheServerIsBusyAndGivesUpInTheEnd) {
  Server server(content_);
  server.failures = 2;
  EXPECT_TRUE(download(server.url(), target_, quick(digest_)).ok());
  EXPECT_EQ(server.requests().size(), 3U);
  fs::remove(target_);

  Server busy(content_);
  busy.failures = 1000;
  expect_failure(download(busy.url(), target_, quick(digest_)), Code::kUnavailable, {"503"});
  EXPECT_EQ(busy.requests().size(), 5U);

  Server missing(content_);
  missing.status = 404;
  expect_failure(download(missing.url(), target_, quick(digest_)), Code::kNotFound, {"404"});
  EXPECT_EQ(missing.requests().size(), 1U);
  EXPECT_FALSE(fs::exists(part_));
}

TEST_F(DownloadTest, RefusesOtherProtocols) {
  const fs::path file = folder_.write("local.txt", "local");
  EXPECT_FALSE(download("file://" + file.string(), target_, quick()).ok());
  EXPECT_FALSE(fs::exists(target_));
}

TEST(KnownFiles, HaveDigests) {
  ASSERT_EQ(known_files().size(), 2U);
  for (const KnownFile& file : known_files()) {
    EXPECT_EQ(file.sha256.size(), 64U);
    EXPECT_GT(file.size, 0U);
  }
}

}  // namespace
}  // namespace espalier
