#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <nlohmann/json.hpp>

#include "espalier/checkpoint/safetensors.h"

namespace espalier {
namespace {

constexpr uint64_t kAlign = 8;
constexpr size_t kMaxHeader = 100'000'000;

struct Piece {
  Dims offset, shape;
};

struct Planned {
  TensorInfo tensor;
  uint64_t begin = 0;           // byte in the file
  std::vector<Piece> pieces{};  // in the shape `view`
  Dims view{};
};

bool overlap(const Piece& a, const Piece& b) {
  for (size_t i = 0; i < a.offset.size(); ++i) {
    if (a.offset[i] + a.shape[i] <= b.offset[i] || b.offset[i] + b.shape[i] <= a.offset[i]) {
      return false;
    }
  }
  return true;
}

// Disjoint pieces whose elements add up to the tensor's cover it exactly once.
Status check_cover(Planned& planned, const std::filesystem::path& target) {
  auto& pieces = planned.pieces;
  std::sort(pieces.begin(), pieces.end(),
            [](const Piece& a, const Piece& b) { return a.offset < b.offset; });
  const auto fail = [&](const std::string& what) {
    return Failure{Code::kFailedPrecondition, "cannot finish '" + target.string() + "': tensor '" +
                                                  planned.tensor.name + "' of shape " +
                                                  to_string(planned.tensor.dims) + " " + what};
  };
  int64_t written = 0;
  for (size_t i = 0; i < pieces.size(); ++i) {
    written += num_elements(pieces[i].shape);
    for (size_t j = i + 1; j < pieces.size(); ++j) {
      if (overlap(pieces[i], pieces[j])) {
        return fail("was written twice at " + to_string(pieces[j].offset));
      }
      // Sorted by offset: from here on all begin past this piece in the outermost dimension.
      if (pieces[j].offset[0] >= pieces[i].offset[0] + pieces[i].shape[0]) break;
    }
  }
  const int64_t all = num_elements(planned.tensor.dims);
  if (written != all) {
    return fail("has " + std::to_string(written) + " of its " + std::to_string(all) +
                " elements written; write the missing pieces first");
  }
  return {};
}

// Takes the blocks from the disk now, so that a full disk shows before gigabytes are written.
Status reserve(int fd, uint64_t bytes, const std::filesystem::path& target) {
  int failed = 0;
  do {
    failed = ::fallocate(fd, 0, 0, static_cast<off_t>(bytes));
  } while (failed != 0 && errno == EINTR);
  if (failed != 0 && (errno == EOPNOTSUPP || errno == ENOSYS)) {
    failed = ::ftruncate(fd, static_cast<off_t>(bytes));
  }
  if (failed == 0) return {};
  const bool too_big = errno == EFBIG;
  Failure failure = errno_failure("reserve " + std::to_string(bytes) + " bytes for", target);
  if (too_big) {
    failure.code = Code::kResourceExhausted;
    failure.message += "; raise the file size limit (ulimit -f)";
  }
  return failure;
}

Result<std::string> header_text(const std::vector<Planned>& plan, uint64_t data_end,
                                const std::map<std::string, std::string>& metadata,
                                const std::filesystem::path& target) {
  nlohmann::json header = nlohmann::json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  for (size_t i = 0; i < plan.size(); ++i) {
    const TensorInfo& t = plan[i].tensor;
    const uint64_t end = i + 1 < plan.size() ? plan[i + 1].begin : data_end;
    header[t.name] = {{"dtype", safetensors_name(t.dtype)},
                      {"shape", t.dims},
                      {"data_offsets", {plan[i].begin, end}}};
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const nlohmann::json::exception& error) {
    return Failure{Code::kInvalidArgument, "cannot write the header of '" + target.string() +
                                               "': a name is not UTF-8: " + error.what()};
  }
  text.append((kAlign - text.size() % kAlign) % kAlign, ' ');
  if (text.size() > kMaxHeader) {
    return Failure{Code::kInvalidArgument,
                   "the header of '" + target.string() + "' would have " +
                       std::to_string(text.size()) +
                       " bytes, more than the format's 100000000; use more files"};
  }
  return text;
}

}  // namespace

struct SafetensorsWriter::State {
  std::filesystem::path target;
  AtomicFile file;
  std::vector<Planned> plan;
  std::vector<TensorInfo> tensors;
  std::unordered_map<std::string, size_t> index;
  std::mutex mutex;  // guards the pieces in `plan`
};

SafetensorsWriter::SafetensorsWriter(std::unique_ptr<State> state) : state_(std::move(state)) {}
SafetensorsWriter::SafetensorsWriter(SafetensorsWriter&&) noexcept = default;
SafetensorsWriter& SafetensorsWriter::operator=(SafetensorsWriter&&) noexcept = default;
SafetensorsWriter::~SafetensorsWriter() = default;

Result<SafetensorsWriter> SafetensorsWriter::create(
    const std::filesystem::path& target, std::vector<TensorInfo> tensors,
    const std::map<std::string, std::string>& metadata) {
  std::sort(tensors.begin(), tensors.end(), [](const TensorInfo& a, const TensorInfo& b) {
    if (byte_size(a.dtype) != byte_size(b.dtype)) return byte_size(a.dtype) > byte_size(b.dtype);
    return a.name < b.name;
  });
  std::vector<Planned> plan;
  std::unordered_map<std::string, size_t> index;
  uint64_t end = 0;
  for (const TensorInfo& t : tensors) {
    ESPALIER_ASSIGN(const uint64_t bytes, stored_bytes(t));
    if (t.name == "__metadata__" || !index.emplace(t.name, plan.size()).second) {
      return Failure{Code::kInvalidArgument,
                     "tensor name '" + t.name + "' is reserved or used twice in '" +
                         target.string() + "'; every tensor needs a name of its own"};
    }
    plan.push_back({t, end});
    end += bytes;
  }
  ESPALIER_ASSIGN(const std::string header, header_text(plan, end, metadata, target));
  const uint64_t data = kAlign + header.size();
  for (Planned& p : plan) p.begin += data;

  ESPALIER_ASSIGN(AtomicFile file, AtomicFile::create(target));
  ESPALIER_TRY(reserve(file.fd(), data + end, target));
  const uint64_t length = header.size();
  ESPALIER_TRY(file.write(std::as_bytes(std::span(&length, 1))));
  ESPALIER_TRY(file.write(header));
  return SafetensorsWriter(std::unique_ptr<State>(new State{
      target, std::move(file), std::move(plan), std::move(tensors), std::move(index), {}}));
}

Status SafetensorsWriter::write_view(std::string_view name, const Dims& view, const Dims& offset,
                                     const Dims& shape, std::span<const std::byte> bytes) {
  const auto found = state_->index.find(std::string(name));
  if (found == state_->index.end()) {
    return unknown_tensor(name, state_->tensors, state_->target.string());
  }
  Planned& planned = state_->plan[found->second];
  ESPALIER_ASSIGN(const TensorInfo tensor, viewed(planned.tensor, view));
  ESPALIER_TRY(check_slice(tensor, offset, shape, bytes.size()));
  if (bytes.empty()) return {};
  ESPALIER_TRY(for_each_run(tensor, offset, shape, [&](uint64_t to, uint64_t from, uint64_t count) {
    return state_->file.write_at(planned.begin + to, bytes.subspan(from, count));
  }));
  // Recorded last: a piece that failed half-way counts as missing.
  const std::lock_guard lock(state_->mutex);
  if (planned.pieces.empty()) planned.view = view;
  if (planned.view != view) {
    return Failure{Code::kInvalidArgument, "tensor '" + tensor.name + "' is written in pieces of " +
                                               to_string(planned.view) + " and of " +
                                               to_string(view) +
                                               "; give all pieces of a tensor in one shape"};
  }
  planned.pieces.push_back({offset, shape});
  return {};
}

Status SafetensorsWriter::write_piece(std::string_view name, const Dims& offset, const Dims& shape,
                                      std::span<const std::byte> bytes) {
  const auto found = state_->index.find(std::string(name));
  if (found == state_->index.end()) {
    return unknown_tensor(name, state_->tensors, state_->target.string());
  }
  return write_view(name, state_->plan[found->second].tensor.dims, offset, shape, bytes);
}

Status SafetensorsWriter::write(std::string_view name, const HostArray& array) {
  const auto found = state_->index.find(std::string(name));
  if (found != state_->index.end()) {
    const TensorInfo& t = state_->plan[found->second].tensor;
    if (t.dtype != array.dtype() || t.dims != array.dims()) {
      return Failure{Code::kInvalidArgument,
                     "tensor '" + t.name + "' was announced as " + safetensors_name(t.dtype) + " " +
                         to_string(t.dims) + ", got " + safetensors_name(array.dtype()) + " " +
                         to_string(array.dims())};
    }
  }
  return write_piece(name, Dims(array.dims().size(), 0), array.dims(),
                     {array.data(), array.bytes()});
}

Result<FileDigest> SafetensorsWriter::finish() {
  for (Planned& planned : state_->plan) ESPALIER_TRY(check_cover(planned, state_->target));
  ESPALIER_ASSIGN(FileDigest digest, digest_of_fd(state_->file.fd(), state_->target));
  ESPALIER_TRY(state_->file.commit());
  return digest;
}

}  // namespace espalier
