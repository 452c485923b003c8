#include "espalier/data/text_file.h"

#include <archive.h>
#include <archive_entry.h>
#include <fmt/format.h>

#include <cerrno>
#include <optional>

namespace espalier {
namespace fs = std::filesystem;
namespace {

constexpr size_t kMaxLevels = 4;
constexpr size_t kMemberBytes = size_t{64} << 10;

std::string unpacked_name(const fs::path& path) {
  const std::string extension = path.extension().string();
  const bool packed =
      extension == ".gz" || extension == ".xz" || extension == ".zst" || extension == ".bz2";
  return packed ? path.stem().string() : path.filename().string();
}

}  // namespace

// A text, or a tar with the member that is being read.
struct TextFile::Level {
  std::unique_ptr<ByteSource> source;
  std::string name, file_name;
  std::unique_ptr<archive, int (*)(archive*)> tar{nullptr, &archive_read_free};  // null: a text
  std::optional<Failure> failure;  // of the source, while the tar was read

  static la_ssize_t on_read(archive* reader, void* user, const void** bytes) {
    auto& level = *static_cast<Level*>(user);
    auto block = level.source->read();
    if (!block) {
      level.failure = block.failure();
      archive_set_error(reader, EIO, "%s", block.failure().message.c_str());
      return -1;
    }
    *bytes = block->data();
    return static_cast<la_ssize_t>(block->size());
  }

  Failure failed() const {
    if (failure) return *failure;
    if (archive_format(tar.get()) == 0) {
      return {Code::kInvalidArgument,
              fmt::format("'{}' is neither text nor a tar (it holds zero bytes); give .txt or "
                          ".jsonl, also in gz, xz, zst, bz2 or tar",
                          name)};
    }
    const char* reason = archive_error_string(tar.get());
    return {Code::kDataLoss, fmt::format("the tar '{}' cannot be read: {}; it is damaged or cut "
                                         "short: get it again",
                                         name, reason != nullptr ? reason : "its data is wrong")};
  }
};

namespace {

// The bytes of a tar's current member.
template <class Level>
class MemberSource : public ByteSource {
 public:
  explicit MemberSource(Level& tar) : tar_(tar), block_(kMemberBytes, '\0') {}
  Result<std::string_view> read() override {
    const la_ssize_t n = archive_read_data(tar_.tar.get(), block_.data(), block_.size());
    if (n < 0) return tar_.failed();
    return std::string_view(block_.data(), static_cast<size_t>(n));
  }

 private:
  Level& tar_;
  std::string block_;
};

}  // namespace

Result<TextFile> TextFile::open(const fs::path& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) {
    return Failure{Code::kInvalidArgument, "'" + path.string() + "' is a folder, not a file"};
  }
  ESPALIER_ASSIGN(auto file, FileSource::open(path));
  return TextFile(std::move(file), path);
}

TextFile::TextFile(std::unique_ptr<FileSource> file, const fs::path& path)
    : bytes_read_(file->bytes_read()), unopened_(std::move(file)), path_(path) {}
TextFile::TextFile(TextFile&&) noexcept = default;
TextFile::~TextFile() {
  while (!levels_.empty()) levels_.pop_back();  // a member's source reads from the level below
}

const std::string& TextFile::name() const { return levels_.back()->name; }
const std::string& TextFile::file_name() const { return levels_.back()->file_name; }
Result<std::string_view> TextFile::read() { return levels_.back()->source->read(); }

Status TextFile::push(std::unique_ptr<ByteSource> source, std::string name, std::string file_name) {
  if (levels_.size() == kMaxLevels) {
    return Failure{Code::kInvalidArgument,
                   fmt::format("'{}' lies in more than {} tars, one inside the other; unpack them "
                               "first",
                               name, kMaxLevels - 1)};
  }
  ESPALIER_ASSIGN(Unpacked unpacked, unpack(std::move(source), name));
  auto level = std::make_unique<Level>();
  level->source = std::move(unpacked.source);
  level->name = std::move(name);
  level->file_name = std::move(file_name);
  // Every tar's header has zero bytes, and no text does.
  if (unpacked.first.substr(0, 512).find('\0') != std::string::npos) {
    level->tar.reset(archive_read_new());
    archive* tar = level->tar.get();
    if (tar == nullptr) throw Error("libarchive cannot start", Code::kResourceExhausted);
    archive_read_support_format_tar(tar);
    if (archive_read_open(tar, level.get(), nullptr, &Level::on_read, nullptr) != ARCHIVE_OK) {
      return level->failed();
    }
  }
  levels_.push_back(std::move(level));
  return {};
}

// Reads what is left behind a tar's last member or an unread text: there may be checksums.
Status TextFile::drain() {
  while (true) {
    ESPALIER_ASSIGN(const std::string_view rest, levels_.back()->source->read());
    if (rest.empty()) return {};
  }
}

Result<bool> TextFile::next() {
  if (unopened_) {
    ESPALIER_TRY(push(std::move(unopened_), path_.string(), unpacked_name(path_)));
    if (!levels_.back()->tar) return true;
  } else if (!levels_.empty() && !levels_.back()->tar) {
    ESPALIER_TRY(drain());
    levels_.pop_back();
  }
  while (!levels_.empty()) {
    Level& top = *levels_.back();
    archive_entry* entry = nullptr;
    const int code = archive_read_next_header(top.tar.get(), &entry);
    if (code == ARCHIVE_EOF) {
      ESPALIER_TRY(drain());
      levels_.pop_back();
      continue;
    }
    if (code < ARCHIVE_WARN) return top.failed();
    if (archive_entry_filetype(entry) != AE_IFREG || archive_entry_hardlink(entry) != nullptr ||
        archive_entry_size(entry) == 0) {
      continue;
    }
    const char* raw = archive_entry_pathname(entry);
    const fs::path member = raw != nullptr ? raw : "(a name that cannot be read)";
    if (member.filename().string().starts_with("._")) continue;
    ESPALIER_TRY(push(std::make_unique<MemberSource<Level>>(top), top.name + ": " + member.string(),
                      unpacked_name(member)));
    if (!levels_.back()->tar) return true;
  }
  return false;
}

}  // namespace espalier
