#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "espalier/checkpoint/safetensors.h"

namespace espalier {
namespace {

using Json = nlohmann::json;

constexpr uint64_t kPrefix = 8;
// The format's own bound, against headers that are no headers.
constexpr uint64_t kMaxHeader = 100'000'000;

struct Entry {
  TensorInfo tensor;
  uint64_t begin = 0, end = 0;
};

Failure damaged(const std::filesystem::path& path, const std::string& what) {
  return {Code::kDataLoss, "'" + path.string() + "' is not a whole safetensors file: " + what};
}

Result<Json> parse_header(const std::filesystem::path& path, std::string_view text) {
  std::set<std::string> names;
  std::string repeated;
  const auto watch = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (event == Json::parse_event_t::key && depth == 1) {
      auto name = parsed.get<std::string>();
      if (!names.insert(name).second) repeated = name;
    }
    return true;
  };
  try {
    Json header = Json::parse(text, watch);
    if (!header.is_object()) return damaged(path, "its header is JSON, but no object");
    if (!repeated.empty()) return damaged(path, "its header names '" + repeated + "' twice");
    return header;
  } catch (const Json::exception& error) {
    return damaged(path, std::string("its header is not JSON (byte 8 on): ") + error.what());
  }
}

bool is_count(const Json& value) {
  return value.is_number_unsigned() && value.get<uint64_t>() <= uint64_t{INT64_MAX};
}

bool are_counts(const Json& value) {
  return value.is_array() && std::all_of(value.begin(), value.end(), is_count);
}

Result<Entry> parse_entry(const std::filesystem::path& path, const std::string& name,
                          const Json& value) {
  const std::string where = "tensor '" + name + "' in its header ";
  if (!value.is_object() || !value.contains("dtype") || !value["dtype"].is_string() ||
      !value.contains("shape") || !are_counts(value["shape"]) || !value.contains("data_offsets") ||
      !are_counts(value["data_offsets"]) || value["data_offsets"].size() != 2) {
    return damaged(path, where + "needs a dtype, a shape and two data_offsets");
  }
  const auto dtype_name = value["dtype"].get<std::string>();
  const auto dtype = dtype_from_safetensors(dtype_name);
  if (!dtype) {
    return Failure{Code::kUnimplemented, "'" + path.string() + "': tensor '" + name +
                                             "' has element type '" + dtype_name +
                                             "', which Espalier cannot hold; convert the file"};
  }
  Entry entry{{name, *dtype, value["shape"].get<Dims>()},
              value["data_offsets"][0].get<uint64_t>(),
              value["data_offsets"][1].get<uint64_t>()};
  const auto bytes = stored_bytes(entry.tensor);
  if (!bytes) return damaged(path, bytes.failure().message);
  if (entry.end < entry.begin || entry.end - entry.begin != *bytes) {
    return damaged(path, where + "has data_offsets [" + std::to_string(entry.begin) + ", " +
                             std::to_string(entry.end) + "], but " + dtype_name + " of shape " +
                             to_string(entry.tensor.dims) + " takes " + std::to_string(*bytes) +
                             " bytes");
  }
  return entry;
}

}  // namespace

Result<SafetensorsFile> SafetensorsFile::open(const std::filesystem::path& path) {
  ESPALIER_ASSIGN(MappedFile file, MappedFile::open(path));
  SafetensorsFile out(std::move(file));
  ESPALIER_TRY(out.parse());
  return out;
}

Status SafetensorsFile::parse() {
  const auto bytes = file_.bytes();
  const std::string actual = std::to_string(bytes.size());
  if (bytes.size() < kPrefix) {
    return damaged(path(), "expected at least 8 bytes, it has " + actual);
  }
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), kPrefix);
  if (length > kMaxHeader) {
    return damaged(path(), "its first 8 bytes give a header of " + std::to_string(length) +
                               " bytes; at most " + std::to_string(kMaxHeader) + " are allowed");
  }
  if (length > bytes.size() - kPrefix) {
    return damaged(path(), "it is truncated: expected at least " +
                               std::to_string(kPrefix + length) + " bytes for the header, it has " +
                               actual);
  }
  ESPALIER_ASSIGN(const Json header,
                  parse_header(path(), {reinterpret_cast<const char*>(bytes.data()) + kPrefix,
                                        static_cast<size_t>(length)}));
  std::vector<Entry> entries;
  for (const auto& [name, value] : header.items()) {
    if (name == "__metadata__") {
      const auto text = [](const Json& v) { return v.is_string(); };
      if (!value.is_object() || !std::all_of(value.begin(), value.end(), text)) {
        return damaged(path(), "its __metadata__ is not an object of strings");
      }
      metadata_ = value.get<std::map<std::string, std::string>>();
      continue;
    }
    ESPALIER_ASSIGN(Entry entry, parse_entry(path(), name, value));
    entries.push_back(std::move(entry));
  }
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::tie(a.begin, a.end, a.tensor.name) < std::tie(b.begin, b.end, b.tensor.name);
  });
  uint64_t end = 0;
  for (const Entry& e : entries) {
    if (e.begin != end) {
      return damaged(path(), "tensor '" + e.tensor.name + "' begins at data byte " +
                                 std::to_string(e.begin) + ", " +
                                 (e.begin < end ? "inside the tensor before it, which ends at "
                                                : "leaving a gap after ") +
                                 std::to_string(end));
    }
    end = e.end;
  }
  // Every offset is below 2^63, so this cannot wrap.
  const uint64_t expected = kPrefix + length + end;
  if (expected != bytes.size()) {
    return damaged(path(), std::string(expected > bytes.size() ? "it is truncated: " : "") +
                               "expected " + std::to_string(expected) + " bytes, it has " + actual);
  }
  for (Entry& e : entries) {
    views_.push_back(bytes.subspan(kPrefix + length + e.begin, e.end - e.begin));
    index_.emplace(e.tensor.name, tensors_.size());
    tensors_.push_back(std::move(e.tensor));
  }
  return {};
}

Result<size_t> SafetensorsFile::index_of(std::string_view name) const {
  const auto found = index_.find(std::string(name));
  if (found == index_.end()) return unknown_tensor(name, tensors_, path().string());
  return found->second;
}

const TensorInfo* SafetensorsFile::find(std::string_view name) const {
  const auto found = index_.find(std::string(name));
  return found == index_.end() ? nullptr : &tensors_[found->second];
}

Result<std::span<const std::byte>> SafetensorsFile::view(std::string_view name) const {
  ESPALIER_ASSIGN(const size_t i, index_of(name));
  return views_[i];
}

Result<HostArray> SafetensorsFile::read(std::string_view name) const {
  ESPALIER_ASSIGN(const size_t i, index_of(name));
  HostArray out(tensors_[i].dtype, tensors_[i].dims);
  if (!views_[i].empty()) std::memcpy(out.data(), views_[i].data(), views_[i].size());
  return out;
}

Status SafetensorsFile::read_view(std::string_view name, const Dims& view, const Dims& offset,
                                  const Dims& shape, std::span<std::byte> out) const {
  ESPALIER_ASSIGN(const size_t i, index_of(name));
  ESPALIER_ASSIGN(const TensorInfo tensor, viewed(tensors_[i], view));
  ESPALIER_TRY(check_slice(tensor, offset, shape, out.size()));
  return for_each_run(tensor, offset, shape,
                      [&](uint64_t from, uint64_t to, uint64_t bytes) -> Status {
                        std::memcpy(out.data() + to, views_[i].data() + from, bytes);
                        return {};
                      });
}

}  // namespace espalier
