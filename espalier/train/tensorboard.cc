#include "espalier/train/tensorboard.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <charconv>
#include <chrono>
#include <cstring>

#include "espalier/base/file.h"
#include "espalier/train/checksum.h"
#include "espalier/train/proto/event.pb.h"

namespace espalier {
namespace fs = std::filesystem;
namespace {

static_assert(std::endian::native == std::endian::little, "records are written as they lie");

constexpr std::string_view kPrefix = "events.out.tfevents.";

uint32_t masked_crc32c(std::string_view bytes) {
  return std::rotr(crc32c(bytes), 15) + 0xa282ead8u;
}

double seconds_since_epoch() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

tensorboard::Event event_at(int64_t step) {
  tensorboard::Event event;
  event.set_wall_time(seconds_since_epoch());
  event.set_step(step);
  return event;
}

// Now, or one second past the latest event file of the folder.
int64_t next_time(const fs::path& folder) {
  int64_t time = static_cast<int64_t>(seconds_since_epoch());
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(kPrefix)) continue;
    int64_t earlier = 0;
    std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), earlier);
    time = std::max(time, earlier + 1);
  }
  return time;
}

template <class T>
std::string_view bytes_of(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

}  // namespace

std::string host_name() {
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0 || host[0] == 0) return "localhost";
  return host.data();
}

Result<TensorBoardWriter> TensorBoardWriter::open(const fs::path& folder,
                                                  std::optional<int64_t> resumed_step) {
  const fs::path path = folder / fmt::format("{}{}.{}", kPrefix, next_time(folder), host_name());
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  std::FILE* file = fd < 0 ? nullptr : ::fdopen(fd, "wb");
  if (file == nullptr) return errno_failure("create", path);
  TensorBoardWriter writer(path, file);

  tensorboard::Event version = event_at(0);
  version.set_file_version("brain.Event:2");
  ESPALIER_TRY(writer.write_record(version.SerializeAsString()));
  // A reader drops what it has from the event's own step on. It passes over the first START that it
  // meets, so a run's first file has one too.
  tensorboard::Event start = event_at(resumed_step ? *resumed_step + 1 : 0);
  start.mutable_session_log()->set_status(tensorboard::SessionLog::START);
  ESPALIER_TRY(writer.write_record(start.SerializeAsString()));
  return writer;
}

Status TensorBoardWriter::scalar(std::string_view tag, int64_t step, double value) {
  tensorboard::Event event = event_at(step);
  auto* entry = event.mutable_summary()->add_value();
  entry->set_tag(std::string(tag));
  entry->set_simple_value(static_cast<float>(value));
  return write_record(event.SerializeAsString());
}

Status TensorBoardWriter::text(std::string_view tag, int64_t step, std::string_view text) {
  tensorboard::Event event = event_at(step);
  auto* entry = event.mutable_summary()->add_value();
  entry->set_tag(std::string(tag));
  entry->mutable_metadata()->mutable_plugin_data()->set_plugin_name("text");
  auto* tensor = entry->mutable_tensor();
  tensor->set_dtype(tensorboard::DT_STRING);
  tensor->mutable_tensor_shape()->add_dim()->set_size(1);
  tensor->add_string_val(std::string(text));
  return write_record(event.SerializeAsString());
}

Status TensorBoardWriter::write_record(const std::string& bytes) {
  const uint64_t length = bytes.size();
  const uint32_t length_crc = masked_crc32c(bytes_of(length));
  const uint32_t bytes_crc = masked_crc32c(bytes);
  std::string record;
  record.append(bytes_of(length)).append(bytes_of(length_crc)).append(bytes);
  record.append(bytes_of(bytes_crc));
  if (std::fwrite(record.data(), 1, record.size(), file_.get()) != record.size() ||
      std::fflush(file_.get()) != 0) {
    return errno_failure("write", path_);
  }
  return {};
}

Status write_scalars(TensorBoardWriter& writer, const StepMetrics& metrics) {
  for (const auto& [tag, value] : named_scalars(metrics)) {
    ESPALIER_TRY(writer.scalar(tag, metrics.step, value));
  }
  return {};
}

Result<std::vector<std::string>> read_records(const fs::path& path) {
  ESPALIER_ASSIGN(const std::string file, read_file(path));
  constexpr size_t kHeader = sizeof(uint64_t) + sizeof(uint32_t);
  std::vector<std::string> records;
  std::string_view rest = file;
  while (!rest.empty()) {
    const auto broken = [&](const char* what) {
      return Failure{Code::kDataLoss,
                     fmt::format("'{}': the record at byte {} {}; delete the file to go on without "
                                 "its curves",
                                 path.string(), file.size() - rest.size(), what)};
    };
    if (rest.size() < kHeader) return broken("is cut off");
    uint64_t length = 0;
    uint32_t crc = 0;
    std::memcpy(&length, rest.data(), sizeof length);
    std::memcpy(&crc, rest.data() + sizeof length, sizeof crc);
    if (crc != masked_crc32c(rest.substr(0, sizeof length))) return broken("has an altered length");
    if (rest.size() - kHeader < sizeof crc || rest.size() - kHeader - sizeof crc < length) {
      return broken("is cut off");
    }
    const std::string_view bytes = rest.substr(kHeader, length);
    std::memcpy(&crc, rest.data() + kHeader + length, sizeof crc);
    if (crc != masked_crc32c(bytes)) return broken("has altered bytes");
    records.emplace_back(bytes);
    rest.remove_prefix(kHeader + length + sizeof crc);
  }
  return records;
}

}  // namespace espalier
