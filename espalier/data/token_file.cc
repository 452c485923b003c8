#include "espalier/data/token_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "espalier/base/log.h"
#include "espalier/base/sha256.h"
#include "espalier/data/token_format.h"

namespace espalier {
namespace fs = std::filesystem;

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(TokenFile::Info, tokenizer, tokenizer_digest, vocab_size,
                                   token_bytes, token_count, story_count, max_id, trim, source,
                                   source_size, source_modified_ns, source_sha256, content_sha256)

std::string token_format::header_text(const TokenFile::Info& info) {
  return nlohmann::json(info).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

namespace {

using namespace token_format;

size_t file_size(const TokenFile::Info& info) {
  if (info.story_count == 0) {
    return kTokensAt + static_cast<size_t>(info.token_count * info.token_bytes);
  }
  return stories_at(info) + (static_cast<size_t>(info.story_count) + 1) * sizeof(uint64_t);
}

Failure damaged(const fs::path& path, const std::string& how) {
  return {Code::kDataLoss, "the token file '" + path.string() + "' " + how +
                               "; remove it, and it is made again from its text"};
}

Result<TokenFile::Info> parse_header(const fs::path& path, std::span<const std::byte> bytes) {
  const auto* text = reinterpret_cast<const char*>(bytes.data());
  if (bytes.size() < kMagic.size() || std::string_view(text, kMagic.size()) != kMagic) {
    return Failure{Code::kInvalidArgument,
                   "'" + path.string() + "' is not a token file of this program's version"};
  }
  if (bytes.size() < kTokensAt) {
    return damaged(path, fmt::format("is truncated inside its header: {} bytes", bytes.size()));
  }
  uint64_t length = 0;
  std::memcpy(&length, text + kMagic.size(), sizeof(length));
  if (length > kTokensAt - kHeaderAt) return damaged(path, "has an altered header");
  const std::string_view header(text + kHeaderAt, length);
  const std::string digest = sha256_hex(header);
  const auto* stored = reinterpret_cast<const unsigned char*>(text + kDigestAt);
  std::string stored_hex;
  for (int i = 0; i < 32; ++i) stored_hex += fmt::format("{:02x}", stored[i]);
  if (stored_hex != digest) return damaged(path, "has an altered header (its checksum differs)");
  try {
    const auto info = nlohmann::json::parse(header).get<TokenFile::Info>();
    const int64_t limit = int64_t{1} << 48;
    if ((info.token_bytes == 2 || info.token_bytes == 4) && info.token_count > 0 &&
        info.token_count < limit && info.story_count >= 0 && info.story_count < limit) {
      return info;
    }
  } catch (const nlohmann::json::exception&) {
  }
  return damaged(path, "has a header that makes no sense");
}

}  // namespace

Result<TokenFile> TokenFile::open(const fs::path& path) {
  TokenFile out;
  ESPALIER_ASSIGN(out.tokens_.file, MappedFile::open(path));
  const auto bytes = out.tokens_.file.bytes();
  ESPALIER_ASSIGN(out.info_, parse_header(path, bytes));
  const size_t expected = file_size(out.info_);
  if (bytes.size() != expected) {
    return damaged(path,
                   fmt::format("has {} bytes where its header promises {}: it is {}", bytes.size(),
                               expected, bytes.size() < expected ? "truncated" : "altered"));
  }
  const std::string digest = sha256_hex(bytes.subspan(kTokensAt));
  if (digest != out.info_.content_sha256) {
    return damaged(path, fmt::format("was altered: the SHA-256 of its tokens is {} where its "
                                     "header says {}",
                                     digest, out.info_.content_sha256));
  }
  out.tokens_.tokens = bytes.data() + kTokensAt;
  out.tokens_.count = out.info_.token_count;
  out.tokens_.token_bytes = out.info_.token_bytes;
  if (out.has_stories()) {
    out.stories_ = {reinterpret_cast<const uint64_t*>(bytes.data() + stories_at(out.info_)),
                    static_cast<size_t>(out.info_.story_count) + 1};
    const bool ends = out.stories_.front() == 0 &&
                      out.stories_.back() == static_cast<uint64_t>(out.info_.token_count);
    if (!ends || !std::is_sorted(out.stories_.begin(), out.stories_.end())) {
      return damaged(path, "has positions of stories that make no sense");
    }
  }
  return out;
}

Status TokenFile::check_vocab(int64_t model_vocab) const {
  if (info_.max_id < model_vocab) return {};
  for (int64_t at = 0; at < size(); ++at) {
    int32_t id = 0;
    copy(at, {&id, 1});
    if (id < model_vocab) continue;
    std::string where = fmt::format("token {}", at);
    if (has_stories()) {
      const auto next =
          std::upper_bound(stories_.begin(), stories_.end(), static_cast<uint64_t>(at));
      const int64_t story = next - stories_.begin() - 1;
      where += fmt::format(" (story {}, token {} of it)", story, at - story_begin(story));
    }
    return Failure{
        Code::kInvalidArgument,
        fmt::format("{} of '{}' has the id {}, outside the model's vocabulary of {}; the "
                    "tokenizer '{}' has {} ids: set the model's vocabulary size to at "
                    "least {}, or choose another tokenizer",
                    where, info_.source, id, model_vocab, info_.tokenizer, info_.vocab_size,
                    info_.vocab_size)};
  }
  return {};
}

fs::path token_file_path(const SourceText& source, const Tokenizer& tokenizer,
                         const TokenizeOptions& options, const fs::path& folder) {
  std::string name = fs::path(tokenizer.name()).stem().string();
  const std::string digest = sha256_hex(source.key() + '\n' + tokenizer_digest(tokenizer) +
                                        (options.trim ? "\ntrim" : "\nwhole"));
  return folder / fmt::format("{}.{}.{}.tokens", source.stem(), name, digest.substr(0, 8));
}

std::string tokenizer_digest(const Tokenizer& tokenizer) {
  Sha256 digest;
  digest.update(std::to_string(tokenizer.vocab_size()));
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    const auto bytes = tokenizer.decode({&id, 1});
    digest.update(bytes ? std::to_string(bytes->size()) + ":" + *bytes : std::string("-"));
  }
  if (const auto end = tokenizer.end_of_text()) digest.update("end" + std::to_string(*end));
  try {
    // Tells apart patterns over the same vocabulary: digits, contractions, spaces, line breaks.
    for (const int32_t id :
         tokenizer.encode("It's 12345 o'CLOCK,  \n\n  they'LL be here!?\t\n a")) {
      digest.update(std::to_string(id) + ",");
    }
  } catch (const Error&) {
    // An alphabet without these characters: its vocabulary alone identifies it.
  }
  return digest.hex();
}

Result<TokenFile> open_or_build(const SourceText& source, const Tokenizer& tokenizer,
                                const TokenizeOptions& options, const fs::path& cache_folder) {
  const fs::path cached = token_file_path(source, tokenizer, options, cache_folder);
  std::vector<fs::path> candidates = {cached};
  if (source.is_file()) {
    const fs::path beside =
        token_file_path(source, tokenizer, options, fs::path(source.name()).parent_path());
    if (beside != cached) candidates.push_back(beside);
  }
  std::string hash;
  for (const fs::path& path : candidates) {
    if (!fs::exists(path)) continue;
    auto file = TokenFile::open(path);
    if (!file) {
      err().warn("{} (tokenizing '{}' again)", file.failure().message, source.name());
      continue;
    }
    const TokenFile::Info& info = file->info();
    if (info.tokenizer_digest != tokenizer_digest(tokenizer) || info.trim != options.trim ||
        info.source_size != static_cast<int64_t>(source.text().size())) {
      continue;
    }
    const bool untouched = source.is_file() && info.source_modified_ns == source.modified_ns();
    if (!untouched && hash.empty()) hash = source.sha256();
    if (untouched || info.source_sha256 == hash) return file;
  }
  ESPALIER_TRY(make_folders(cache_folder));
  return build_token_file(source, tokenizer, options, cached);
}

}  // namespace espalier
