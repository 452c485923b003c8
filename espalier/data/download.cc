#include "espalier/data/download.h"

#include <curl/curl.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <memory>
#include <optional>
#include <thread>

#include "espalier/base/file.h"
#include "espalier/base/sha256.h"

namespace espalier {
namespace fs = std::filesystem;
namespace {

fs::path with_suffix(const fs::path& path, std::string_view suffix) {
  fs::path out = path;
  out += suffix;
  return out;
}

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

bool is_digest(std::string_view text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

// The part of a file that is there, and the request under way.
struct Transfer {
  const DownloadOptions* options = nullptr;
  CURL* curl = nullptr;
  fs::path part;
  int fd = -1;
  uint64_t offset = 0;  // bytes in the part
  uint64_t total = 0;   // bytes in all, 0: not known
  bool asked_range = false, started = false;
  std::string linked_digest;
  std::optional<uint64_t> size_by_range_error;  // from "Content-Range: bytes */SIZE"
  std::optional<Failure> failure;               // of writing the part

  ~Transfer() {
    if (fd < 0) return;
    ::close(fd);
    std::error_code ignored;
    if (offset == 0) fs::remove(part, ignored);
  }
};

size_t on_header(char* data, size_t, size_t count, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  const std::string_view line(data, count);
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos) return count;
  const std::string name = lower(line.substr(0, colon));
  std::string value = lower(line.substr(colon + 1));
  std::erase_if(value, [](char c) { return c == '"' || c == ' ' || c == '\r' || c == '\n'; });
  if (name == "x-linked-etag" && is_digest(value)) transfer.linked_digest = value;
  if (name == "content-range" && value.starts_with("bytes*/")) {
    transfer.size_by_range_error = std::strtoull(value.c_str() + 7, nullptr, 10);
  }
  return count;
}

// Decides on the first bytes of an answer whether the server honoured the range.
Status start_body(Transfer& transfer) {
  transfer.started = true;
  long code = 0;
  curl_easy_getinfo(transfer.curl, CURLINFO_RESPONSE_CODE, &code);
  if (transfer.asked_range && code != 206) {
    if (::ftruncate(transfer.fd, 0) != 0) return errno_failure("shorten", transfer.part);
    transfer.offset = 0;
  }
  curl_off_t length = -1;
  curl_easy_getinfo(transfer.curl, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
  transfer.total = length > 0 ? transfer.offset + static_cast<uint64_t>(length) : 0;
  return {};
}

Status write_body(Transfer& transfer, const char* data, size_t count) {
  if (!transfer.started) ESPALIER_TRY(start_body(transfer));
  while (count > 0) {
    const ssize_t n = ::pwrite(transfer.fd, data, count, static_cast<off_t>(transfer.offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno_failure("write", transfer.part);
    data += n;
    count -= static_cast<size_t>(n);
    transfer.offset += static_cast<uint64_t>(n);
  }
  if (transfer.options->progress) transfer.options->progress(transfer.offset, transfer.total);
  return {};
}

size_t on_body(char* data, size_t, size_t count, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  const Status status = write_body(transfer, data, count);
  if (status) return count;
  transfer.failure = status.failure();
  return 0;
}

struct Answer {
  CURLcode code = CURLE_OK;
  long http = 0;
  std::string reason;
};

Answer request(Transfer& transfer, const std::string& url) {
  const std::unique_ptr<CURL, void (*)(CURL*)> curl(curl_easy_init(), &curl_easy_cleanup);
  if (!curl) return {CURLE_FAILED_INIT, 0, "libcurl cannot start"};
  transfer.curl = curl.get();
  transfer.started = false;
  transfer.size_by_range_error.reset();
  char reason[CURL_ERROR_SIZE] = "";
  curl_easy_setopt(curl.get(), CURLOPT_URL, url.c_str());
  curl_easy_setopt(curl.get(), CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(curl.get(), CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(curl.get(), CURLOPT_FOLLOWLOCATION, 1L);
  curl_easy_setopt(curl.get(), CURLOPT_MAXREDIRS, 10L);
  curl_easy_setopt(curl.get(), CURLOPT_FAILONERROR, 1L);
  curl_easy_setopt(curl.get(), CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl.get(), CURLOPT_CONNECTTIMEOUT, 30L);
  curl_easy_setopt(curl.get(), CURLOPT_LOW_SPEED_LIMIT, 1L);
  curl_easy_setopt(curl.get(), CURLOPT_LOW_SPEED_TIME, 60L);
  curl_easy_setopt(curl.get(), CURLOPT_USERAGENT, "espalier");
  curl_easy_setopt(curl.get(), CURLOPT_ERRORBUFFER, reason);
  curl_easy_setopt(curl.get(), CURLOPT_HEADERFUNCTION, &on_header);
  curl_easy_setopt(curl.get(), CURLOPT_HEADERDATA, &transfer);
  curl_easy_setopt(curl.get(), CURLOPT_WRITEFUNCTION, &on_body);
  curl_easy_setopt(curl.get(), CURLOPT_WRITEDATA, &transfer);
  // CURLOPT_RESUME_FROM gives up where a server ignores ranges; a plain range lets us start over.
  const std::string range = std::to_string(transfer.offset) + "-";
  transfer.asked_range = transfer.offset > 0;
  if (transfer.asked_range) curl_easy_setopt(curl.get(), CURLOPT_RANGE, range.c_str());
  Answer answer;
  answer.code = curl_easy_perform(curl.get());
  curl_easy_getinfo(curl.get(), CURLINFO_RESPONSE_CODE, &answer.http);
  answer.reason = reason[0] != '\0' ? reason : curl_easy_strerror(answer.code);
  return answer;
}

bool worth_retrying(const Answer& answer) {
  if (answer.code == CURLE_HTTP_RETURNED_ERROR) {
    return answer.http >= 500 || answer.http == 429 || answer.http == 408;
  }
  return answer.code != CURLE_UNSUPPORTED_PROTOCOL && answer.code != CURLE_URL_MALFORMAT &&
         answer.code != CURLE_PEER_FAILED_VERIFICATION && answer.code != CURLE_TOO_MANY_REDIRECTS;
}

// Requests until the part is whole.
Status fetch_all(Transfer& transfer, const std::string& url) {
  const DownloadOptions& options = *transfer.options;
  auto pause = options.pause;
  for (int failed = 0;;) {
    const uint64_t before = transfer.offset;
    const Answer answer = request(transfer, url);
    if (transfer.failure) return *transfer.failure;
    if (answer.code == CURLE_OK) return {};
    if (answer.http == 416 && transfer.asked_range) {
      if (transfer.size_by_range_error == transfer.offset) return {};
      // What was left is longer than the file: it is another file's, so start anew.
      if (::ftruncate(transfer.fd, 0) != 0) return errno_failure("shorten", transfer.part);
      transfer.offset = 0;
      if (++failed < options.attempts) continue;
    }
    if (transfer.offset > before) {
      failed = 0;
      pause = options.pause;
    }
    if (!worth_retrying(answer) || ++failed >= options.attempts) {
      const Code code = answer.http == 404                   ? Code::kNotFound
                        : worth_retrying(answer)             ? Code::kUnavailable
                        : answer.code == CURLE_URL_MALFORMAT ? Code::kInvalidArgument
                                                             : Code::kFailedPrecondition;
      const std::string kept =
          transfer.offset > 0
              ? fmt::format("{} bytes are kept in '{}', and the same command goes on from there",
                            transfer.offset, transfer.part.string())
              : "check the address and the network, and try again";
      return Failure{code, fmt::format("cannot download '{}': {}; {}", url, answer.reason, kept)};
    }
    std::this_thread::sleep_for(pause);
    pause *= 2;
  }
}

// The digest noted in "TARGET.sha256", or nothing.
std::string noted_digest(const fs::path& target) {
  const auto text = read_file(with_suffix(target, ".sha256"));
  if (!text) return "";
  const std::string digest = lower(text->substr(0, 64));
  return is_digest(digest) ? digest : "";
}

Failure put_aside(const fs::path& file, const fs::path& target, const std::string& from,
                  const std::string& digest, const std::string& expected) {
  const fs::path bad = with_suffix(target, ".bad");
  std::error_code ignored;
  fs::rename(file, bad, ignored);
  return {Code::kDataLoss,
          fmt::format("the SHA-256 of '{}' from {} is {}, expected {}: the file is damaged or "
                      "another one; it was renamed to '{}'; try again, or give the right digest",
                      target.string(), from, digest, expected, bad.string())};
}

}  // namespace

Result<Downloaded> download(const std::string& url, const fs::path& target,
                            const DownloadOptions& options) {
  std::string expected = lower(options.sha256);
  if (!expected.empty() && !is_digest(expected)) {
    return Failure{Code::kInvalidArgument,
                   "a SHA-256 is 64 hexadecimal digits, got '" + options.sha256 + "'"};
  }
  Downloaded out;
  if (fs::exists(target)) {
    ESPALIER_ASSIGN(out.sha256, sha256_of_file(target));
    if (expected.empty()) expected = noted_digest(target);
    if (!expected.empty() && out.sha256 != expected) {
      return put_aside(target, target, "the disk", out.sha256, expected);
    }
    out.already_there = true;
    out.checked = !expected.empty();
    return out;
  }
  if (target.has_parent_path()) ESPALIER_TRY(make_folders(target.parent_path()));
  Transfer transfer;
  transfer.options = &options;
  transfer.part = with_suffix(target, ".part");
  transfer.fd = ::open(transfer.part.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (transfer.fd < 0) return errno_failure("open", transfer.part);
  transfer.offset = static_cast<uint64_t>(::lseek(transfer.fd, 0, SEEK_END));
  out.resumed_at = transfer.offset;
  ESPALIER_TRY(fetch_all(transfer, url));
  if (::fsync(transfer.fd) != 0) return errno_failure("sync", transfer.part);
  ESPALIER_ASSIGN(out.sha256, sha256_of_file(transfer.part));
  if (expected.empty()) expected = transfer.linked_digest;
  out.checked = !expected.empty();
  if (out.checked && out.sha256 != expected) {
    return put_aside(transfer.part, target, url, out.sha256, expected);
  }
  ESPALIER_TRY(write_file(with_suffix(target, ".sha256"),
                          out.sha256 + "  " + target.filename().string() + "\n"));
  if (::rename(transfer.part.c_str(), target.c_str()) != 0) {
    return errno_failure("rename to", target);
  }
  ESPALIER_TRY(sync_folder(target.has_parent_path() ? target.parent_path() : fs::path(".")));
  return out;
}

}  // namespace espalier
