#include "espalier/train/wandb_log.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "espalier/base/file.h"
#include "espalier/train/checksum.h"

namespace espalier {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are written as they lie");

constexpr std::string_view kFileHeader("\x3aW&B\xe1\xbe\x00", 7);
constexpr size_t kBlock = 32768, kChunkHeader = 7;
enum Type : char { kWhole = 1, kFirst = 2, kMiddle = 3, kLast = 4 };

std::string chunk(Type type, std::string_view bytes) {
  const std::string checked = std::string(1, type) + std::string(bytes);
  const uint32_t crc = crc32(checked);
  const auto length = static_cast<uint16_t>(bytes.size());
  std::string out(6, 0);
  std::memcpy(out.data(), &crc, sizeof crc);
  std::memcpy(out.data() + sizeof crc, &length, sizeof length);
  return out + checked;
}

// The chunks of a record that begins at a byte of the file.
std::string chunks(size_t offset, std::string_view record) {
  std::string out;
  for (bool first = true, last = false; !last; first = false) {
    size_t room = kBlock - (offset + out.size()) % kBlock;
    if (room < kChunkHeader) {
      out.append(room, 0);
      room = kBlock;
    }
    const std::string_view part = record.substr(0, room - kChunkHeader);
    record.remove_prefix(part.size());
    last = record.empty();
    out += chunk(first ? (last ? kWhole : kFirst) : (last ? kLast : kMiddle), part);
  }
  return out;
}

}  // namespace

Result<WandbLogWriter> WandbLogWriter::create(const std::filesystem::path& path) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  std::FILE* file = fd < 0 ? nullptr : ::fdopen(fd, "wb");
  if (file == nullptr) return errno_failure("create", path);
  WandbLogWriter writer(path, file);
  ESPALIER_TRY(writer.put(std::string(kFileHeader)));
  return writer;
}

Status WandbLogWriter::write(std::string_view record) { return put(chunks(size_, record)); }

Status WandbLogWriter::put(const std::string& bytes) {
  if (std::fwrite(bytes.data(), 1, bytes.size(), file_.get()) != bytes.size() ||
      std::fflush(file_.get()) != 0) {
    return errno_failure("write", path_);
  }
  size_ += bytes.size();
  return {};
}

std::string wandb_log(const std::vector<std::string>& records) {
  std::string out(kFileHeader);
  for (const std::string& record : records) out += chunks(out.size(), record);
  return out;
}

Result<std::vector<std::string>> read_wandb_log(const std::filesystem::path& path) {
  ESPALIER_ASSIGN(const std::string file, read_file(path));
  const auto broken = [&](size_t at, const char* what) {
    return Failure{Code::kDataLoss,
                   fmt::format("'{}': byte {}: {}; move the file's folder away to go on without it",
                               path.string(), at, what)};
  };
  if (!std::string_view(file).starts_with(kFileHeader)) return broken(0, "no W&B log begins here");
  std::vector<std::string> records;
  std::string record;
  bool inside = false;  // of a record whose first part was read
  size_t at = kFileHeader.size();
  while (true) {
    const size_t room = kBlock - at % kBlock;
    if (room < kChunkHeader) at += room;
    if (at + kChunkHeader > file.size()) return records;
    uint32_t crc = 0;
    uint16_t length = 0;
    std::memcpy(&crc, file.data() + at, sizeof crc);
    std::memcpy(&length, file.data() + at + sizeof crc, sizeof length);
    if (at + kChunkHeader + length > file.size()) return records;
    const std::string_view checked =
        std::string_view(file).substr(at + kChunkHeader - 1, size_t{1} + length);
    if (crc != crc32(checked)) return broken(at, "altered bytes");
    const char type = checked[0];
    const bool begins = type == kWhole || type == kFirst;
    if (type < kWhole || type > kLast || begins == inside) {
      return broken(at, "parts of records in a wrong order");
    }
    record.append(checked.substr(1));
    at += kChunkHeader + length;
    inside = type == kFirst || type == kMiddle;
    if (!inside) {
      records.push_back(std::move(record));
      record.clear();
    }
  }
}

}  // namespace espalier
