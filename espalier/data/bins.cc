#include "espalier/data/bins.h"

#include <fmt/format.h>
#include <glob.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "espalier/base/sha256.h"

namespace espalier {
namespace fs = std::filesystem;
namespace {

constexpr size_t kShardHeader = 256 * sizeof(int32_t);

struct ShardKind {
  int32_t magic, version;
  int64_t token_bytes;
};
constexpr ShardKind kShardKinds[] = {{20240520, 1, 2}, {20240801, 7, 4}};

nlohmann::ordered_json split_json(const BinMeta::Split& split) {
  return {{"tokens", split.tokens}, {"documents", split.documents}, {"sha256", split.sha256}};
}

BinMeta::Split parse_split(const nlohmann::json& json) {
  return {json.at("tokens"), json.at("documents"), json.at("sha256")};
}

Failure torn(const fs::path& path, const std::string& how) {
  return {Code::kDataLoss, "'" + path.string() + "' " + how +
                               "; it is damaged or was not written to its end: make or fetch it "
                               "again"};
}

Result<TokenRun> open_raw(const fs::path& path, int64_t token_bytes,
                          const std::optional<int64_t>& promised) {
  TokenRun run;
  ESPALIER_ASSIGN(run.file, MappedFile::open(path));
  const auto size = static_cast<int64_t>(run.file.bytes().size());
  if (size % token_bytes != 0) {
    return torn(path, fmt::format("has a torn end: {} bytes are no whole number of tokens of {} "
                                  "bytes each",
                                  size, token_bytes));
  }
  if (promised && *promised * token_bytes != size) {
    return torn(path, fmt::format("has {} bytes where meta.json promises {} ({} tokens of {} "
                                  "bytes)",
                                  size, *promised * token_bytes, *promised, token_bytes));
  }
  run.tokens = run.file.bytes().data();
  run.count = size / token_bytes;
  run.token_bytes = token_bytes;
  return run;
}

Result<TokenRun> open_shard(const fs::path& path) {
  TokenRun run;
  ESPALIER_ASSIGN(run.file, MappedFile::open(path));
  const auto bytes = run.file.bytes();
  int32_t header[3] = {};
  std::memcpy(header, bytes.data(), std::min(sizeof(header), bytes.size()));
  const auto* kind = std::find_if(std::begin(kShardKinds), std::end(kShardKinds),
                                  [&](const ShardKind& k) { return k.magic == header[0]; });
  if (kind == std::end(kShardKinds)) {
    return Failure{
        Code::kInvalidArgument,
        fmt::format("'{}' is no token shard of llm.c: it begins with {}, not with 20240520 "
                    "or 20240801; name a folder with train.bin, or such shards",
                    path.string(), header[0])};
  }
  if (bytes.size() < kShardHeader) {
    return torn(
        path, fmt::format("is cut inside its header: {} of {} bytes", bytes.size(), kShardHeader));
  }
  if (header[1] != kind->version || header[2] < 0) {
    return Failure{Code::kInvalidArgument,
                   fmt::format("'{}' is a token shard of version {} with {} tokens; version {} is "
                               "known",
                               path.string(), header[1], header[2], kind->version)};
  }
  run.token_bytes = kind->token_bytes;
  run.count = header[2];
  run.tokens = bytes.data() + kShardHeader;
  const auto expected = kShardHeader + static_cast<size_t>(run.count * run.token_bytes);
  if (bytes.size() != expected) {
    return torn(path, fmt::format("has {} bytes where its header promises {} ({} tokens of {} "
                                  "bytes)",
                                  bytes.size(), expected, run.count, run.token_bytes));
  }
  return run;
}

Result<TokenBins> open_folder(const fs::path& folder, const std::string& tokenizer) {
  TokenBins out;
  int64_t token_bytes = 0;
  std::optional<int64_t> train, val;
  const fs::path meta_path = folder / "meta.json";
  if (fs::exists(meta_path)) {
    ESPALIER_ASSIGN(const std::string text, read_file(meta_path));
    ESPALIER_ASSIGN(const BinMeta meta, parse_bin_meta(text, meta_path));
    ESPALIER_ASSIGN(out.tokenizer, parse_tokenizer(meta.tokenizer_text));
    out.has_meta = true;
    token_bytes = meta.token_bytes;
    train = meta.train.tokens;
    val = meta.val.tokens;
  } else {
    if (tokenizer == "char") {
      return Failure{Code::kInvalidArgument,
                     fmt::format("'{}' has no meta.json, which would hold the alphabet of its "
                                 "characters; prepare the text by `espalier prepare`, or give "
                                 "data.tokenizer the path of {{\"kind\": \"char\", \"alphabet\": "
                                 "\"...\"}}",
                                 folder.string())};
    }
    ESPALIER_ASSIGN(out.tokenizer, load_tokenizer(tokenizer));
    token_bytes = out.tokenizer->vocab_size() > 65536 ? 4 : 2;
  }
  ESPALIER_ASSIGN(TokenRun run, open_raw(folder / "train.bin", token_bytes, train));
  out.train.push_back(std::move(run));
  if (fs::exists(folder / "val.bin")) {
    ESPALIER_ASSIGN(TokenRun held, open_raw(folder / "val.bin", token_bytes, val));
    out.val.push_back(std::move(held));
  }
  return out;
}

// What `espalier prepare` is given to make the bins at `path`: recipes name folders after data
// sets.
std::string advised(const std::string& path) {
  const fs::path given(path);
  std::string set = (given.has_filename() ? given : given.parent_path()).filename().string();
  std::replace(set.begin(), set.end(), '_', '-');
  if (set == "shakespeare-char" || set == "openwebtext") return set + " --out " + path;
  return "FILE --out " + (fs::is_directory(given) ? path : std::string("DIR"));
}

Result<std::vector<fs::path>> shard_paths(const std::string& path) {
  std::vector<fs::path> out;
  const std::string pattern = fs::is_directory(path) ? (fs::path(path) / "*.bin").string() : path;
  glob_t found{};
  const int code = ::glob(pattern.c_str(), 0, nullptr, &found);
  for (size_t i = 0; i < found.gl_pathc; ++i) out.emplace_back(found.gl_pathv[i]);
  ::globfree(&found);
  if (out.empty() && code != GLOB_NOMATCH) {
    return Failure{Code::kInternal, "cannot list '" + pattern + "'"};
  }
  if (out.empty()) {
    return Failure{Code::kNotFound,
                   "no tokens at '" + path +
                       "': neither train.bin nor other .bin files are there; make them by "
                       "`espalier prepare " +
                       advised(path) + "`"};
  }
  return out;
}

}  // namespace

std::string to_json(const BinMeta& meta, const Tokenizer& tokenizer) {
  nlohmann::ordered_json json = {{"format", "espalier-bins"},
                                 {"version", 1},
                                 {"tokenizer", meta.tokenizer},
                                 {"vocab_size", meta.vocab_size},
                                 {"token_bytes", meta.token_bytes},
                                 {"end_of_text", nullptr},
                                 {"max_id", meta.max_id},
                                 {"train", split_json(meta.train)},
                                 {"val", split_json(meta.val)},
                                 {"sources", meta.sources},
                                 {"seed", meta.seed},
                                 {"val_fraction", meta.val_fraction},
                                 {"tokenizer_text", meta.tokenizer_text}};
  if (meta.end_of_text) json["end_of_text"] = *meta.end_of_text;
  if (meta.tokenizer == "char") {
    nlohmann::ordered_json stoi = nlohmann::ordered_json::object(), itos = nlohmann::json::array();
    for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
      const std::string character = tokenizer.decode({&id, 1}).value_or_throw();
      stoi[character] = id;
      itos.push_back(character);
    }
    json["stoi"] = std::move(stoi);
    json["itos"] = std::move(itos);
  }
  return json.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

std::string incomplete_bins_json() {
  const nlohmann::ordered_json json = {
      {"format", "espalier-bins"}, {"version", 1}, {"incomplete", true}};
  return json.dump(1) + "\n";
}

Result<BinMeta> parse_bin_meta(const std::string& text, const fs::path& path) {
  try {
    const auto json = nlohmann::json::parse(text);
    if (json.value("incomplete", false)) {
      return Failure{Code::kDataLoss,
                     "the preparation of '" + path.parent_path().string() +
                         "' was cut off while its files were put in their places ('" +
                         path.string() +
                         "' has \"incomplete\": true), so they may be of different texts; prepare "
                         "the data again"};
    }
    BinMeta out;
    out.tokenizer = json.at("tokenizer");
    out.tokenizer_text = json.at("tokenizer_text");
    out.vocab_size = json.at("vocab_size");
    out.token_bytes = json.at("token_bytes");
    const auto& end = json.at("end_of_text");
    if (!end.is_null()) out.end_of_text = end.get<int32_t>();
    out.max_id = json.at("max_id");
    out.train = parse_split(json.at("train"));
    out.val = parse_split(json.at("val"));
    out.sources = json.at("sources").get<std::vector<std::string>>();
    out.seed = json.at("seed");
    out.val_fraction = json.at("val_fraction");
    if (json.at("format") == "espalier-bins" && json.at("version") == 1 &&
        (out.token_bytes == 2 || out.token_bytes == 4)) {
      return out;
    }
    return Failure{Code::kDataLoss,
                   "'" + path.string() + "' is not of version 1 of \"espalier-bins\""};
  } catch (const nlohmann::json::exception& error) {
    return Failure{Code::kDataLoss, "'" + path.string() +
                                        "' does not describe token bins: " + error.what() +
                                        "; prepare the data again, or remove the file and set "
                                        "data.tokenizer"};
  }
}

Result<TokenBins> open_bins(const std::string& path, const std::string& tokenizer) {
  if (fs::exists(fs::path(path) / "train.bin")) return open_folder(path, tokenizer);
  ESPALIER_ASSIGN(const std::vector<fs::path> shards, shard_paths(path));
  TokenBins out;
  for (const fs::path& shard : shards) {
    ESPALIER_ASSIGN(TokenRun run, open_shard(shard));
    const bool held = shard.filename().string().find("val") != std::string::npos;
    (held ? out.val : out.train).push_back(std::move(run));
  }
  ESPALIER_ASSIGN(out.tokenizer, load_tokenizer(tokenizer));
  return out;
}

std::optional<std::string> first_id_outside(const std::vector<TokenRun>& runs, int64_t vocab) {
  std::vector<int32_t> block(size_t{1} << 16);
  // As unsigned numbers, ids that u32 holds and int32 does not are outside too.
  const auto limit = static_cast<uint32_t>(std::min<int64_t>(vocab, int64_t{1} << 31));
  for (const TokenRun& run : runs) {
    for (int64_t at = 0; at < run.count; at += static_cast<int64_t>(block.size())) {
      block.resize(std::min(block.size(), static_cast<size_t>(run.count - at)));
      run.copy(at, block);
      uint32_t largest = 0;
      for (const int32_t id : block) largest = std::max(largest, static_cast<uint32_t>(id));
      if (largest < limit) continue;
      const auto first = std::find_if(block.begin(), block.end(), [&](int32_t id) {
        return static_cast<uint32_t>(id) >= limit;
      });
      return fmt::format("token {} of '{}' has the id {}", at + (first - block.begin()),
                         run.file.path().string(), static_cast<uint32_t>(*first));
    }
    block.resize(size_t{1} << 16);
  }
  return std::nullopt;
}

std::string identity_of(const TokenBins& bins) {
  constexpr size_t kWhole = size_t{16} << 20, kBlock = size_t{64} << 10, kBlocks = 256;
  Sha256 digest;
  for (const auto* runs : {&bins.train, &bins.val}) {
    digest.update(std::to_string(runs->size()) + ";");
    for (const TokenRun& run : *runs) {
      const auto bytes = run.file.bytes();
      digest.update(std::to_string(bytes.size()) + ";");
      if (bytes.size() <= kWhole) {
        digest.update(bytes);
        continue;
      }
      for (size_t i = 0; i < kBlocks; ++i) {
        const size_t at = (bytes.size() - kBlock) / (kBlocks - 1) * i;
        digest.update(bytes.subspan(i + 1 < kBlocks ? at : bytes.size() - kBlock, kBlock));
      }
    }
  }
  return digest.hex();
}

}  // namespace espalier
