#include "espalier/data/bin_writer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>

#include "espalier/data/permutation.h"

namespace espalier {
namespace fs = std::filesystem;
namespace {

constexpr const char* kNames[] = {"train.bin", "val.bin", "meta.json"};

// A number below n, drawn by the seed and `what`; n is far below 2^64, so the draw is even.
uint64_t draw(uint64_t seed, uint64_t what, uint64_t n) { return mix64(mix64(seed) ^ what) % n; }

// What AtomicFile leaves of a killed process: NAME.XXXXXX.tmp.
void clear_leftovers(const fs::path& folder) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    for (const std::string target : kNames) {
      if (name.size() == target.size() + 11 && name.starts_with(target + ".") &&
          name.ends_with(".tmp")) {
        fs::remove(entry.path(), ignored);
      }
    }
  }
}

}  // namespace

Split ValDraw::operator()(uint64_t document) const {
  if (fraction_ <= 0) return Split::kTrain;
  // Group g is the documents [ceil(g / fraction), ceil((g + 1) / fraction)).
  const auto begin = [this](uint64_t g) {
    return static_cast<uint64_t>(std::ceil(static_cast<double>(g) / fraction_));
  };
  auto group = static_cast<uint64_t>(static_cast<double>(document) * fraction_);
  while (begin(group) > document) --group;
  while (begin(group + 1) <= document) ++group;
  const uint64_t first = begin(group), size = begin(group + 1) - first;
  return document == first + draw(seed_, group, size) ? Split::kVal : Split::kTrain;
}

BinWriter::Lock::~Lock() {
  if (fd >= 0) ::close(fd);
}

Result<BinWriter> BinWriter::create(const fs::path& folder,
                                    std::shared_ptr<const Tokenizer> tokenizer, BinMeta asked) {
  ESPALIER_TRY(make_folders(folder));
  Lock lock(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (lock.fd < 0) return errno_failure("open the folder", folder);
  if (::flock(lock.fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return errno_failure("lock", folder);
    return Failure{Code::kFailedPrecondition, "another preparation is writing into '" +
                                                  folder.string() +
                                                  "'; wait for it, or choose another --out"};
  }
  clear_leftovers(folder);
  asked.tokenizer = tokenizer->name();
  ESPALIER_ASSIGN(asked.tokenizer_text, tokenizer->serialize());
  asked.vocab_size = tokenizer->vocab_size();
  asked.token_bytes = asked.vocab_size <= 65536 ? 2 : 4;
  ESPALIER_ASSIGN(AtomicFile train, AtomicFile::create(folder / kNames[0]));
  ESPALIER_ASSIGN(AtomicFile val, AtomicFile::create(folder / kNames[1]));
  File train_file{std::move(train)}, val_file{std::move(val)};
  return BinWriter(folder, std::move(lock), std::move(train_file), std::move(val_file),
                   std::move(tokenizer), std::move(asked));
}

Status BinWriter::append_bytes(File& to, std::string_view bytes) {
  to.digest.update(bytes);
  to.bytes += static_cast<int64_t>(bytes.size());
  return to.file.write(bytes);
}

Status BinWriter::append(Split split, std::string_view bytes, int64_t max_id, bool ends) {
  File& to = split == Split::kTrain ? train_ : val_;
  ESPALIER_TRY(append_bytes(to, bytes));
  meta_.max_id = std::max(meta_.max_id, max_id);
  if (!ends) return {};
  ++to.documents;
  if (split == Split::kTrain) {
    // Sampling one of a stream (Vitter's algorithm R): the n-th takes the place with chance 1 / n.
    const auto n = static_cast<uint64_t>(train_.documents);
    if (draw(~meta_.seed, n, n) == 0) chosen_ = {document_begin_, train_.bytes};
    document_begin_ = train_.bytes;
  }
  return {};
}

Status BinWriter::copy(const File& from, Range range, File& to) {
  std::string block(size_t{1} << 20, '\0');
  while (range.begin < range.end) {
    const auto wanted = std::min(block.size(), static_cast<size_t>(range.end - range.begin));
    const ssize_t n = ::pread(from.file.fd(), block.data(), wanted, range.begin);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      return Failure{Code::kInternal, "cannot read back the tokens that were just written"};
    }
    ESPALIER_TRY(append_bytes(to, {block.data(), static_cast<size_t>(n)}));
    range.begin += n;
  }
  return {};
}

Status BinWriter::move_chosen_document() {
  ESPALIER_TRY(copy(train_, chosen_, val_));
  val_.documents = 1;
  ESPALIER_ASSIGN(AtomicFile file, AtomicFile::create(folder_ / kNames[0]));
  File rest{std::move(file)};
  ESPALIER_TRY(copy(train_, {0, chosen_.begin}, rest));
  ESPALIER_TRY(copy(train_, {chosen_.end, train_.bytes}, rest));
  rest.documents = train_.documents - 1;
  train_ = std::move(rest);
  return {};
}

Result<BinMeta> BinWriter::commit() {
  if (meta_.val_fraction > 0 && val_.documents == 0 && train_.documents >= 2) {
    ESPALIER_TRY(move_chosen_document());
  }
  const auto split = [this](File& file) {
    return BinMeta::Split{file.bytes / meta_.token_bytes, file.documents, file.digest.hex()};
  };
  meta_.train = split(train_);
  meta_.val = split(val_);
  ESPALIER_ASSIGN(AtomicFile meta, AtomicFile::create(folder_ / kNames[2]));
  ESPALIER_TRY(meta.write(to_json(meta_, *tokenizer_)));
  // Whoever finds the folder between the renames is told, and does not read tokens of two texts.
  ESPALIER_TRY(write_file(folder_ / kNames[2], incomplete_bins_json()));
  ESPALIER_TRY(train_.file.commit());
  ESPALIER_TRY(val_.file.commit());
  ESPALIER_TRY(meta.commit());
  return meta_;
}

}  // namespace espalier
