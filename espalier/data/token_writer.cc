// build_token_file: tokenizes by several threads, writes by one, in the order of the text.
#include <fmt/format.h>

#include <algorithm>
#include <future>
#include <thread>

#include "espalier/base/sha256.h"
#include "espalier/data/token_file.h"
#include "espalier/data/token_format.h"

namespace espalier {
namespace fs = std::filesystem;
namespace {

using namespace token_format;

constexpr size_t kBlockBytes = size_t{4} << 20;     // stories that one task tokenizes
constexpr size_t kSegmentBytes = size_t{64} << 20;  // text without separators, tokenized at once

// The ids of a block of stories, and how many belong to each.
struct Block {
  std::vector<int32_t> ids;
  std::vector<uint64_t> lengths;
  uint64_t text_bytes = 0;
};

class Writer {
 public:
  Writer(AtomicFile file, TokenFile::Info info) : file_(std::move(file)), info_(std::move(info)) {}

  Status start() { return write(std::string(kTokensAt, '\0'), false); }

  Status add(const std::vector<int32_t>& ids) {
    for (size_t i = 0; i < ids.size(); ++i) {
      if (ids[i] >= 0 && ids[i] < info_.vocab_size) continue;
      return Failure{
          Code::kInvalidArgument,
          fmt::format("the tokenizer '{}' gave the id {} for token {} of '{}', outside "
                      "its own vocabulary of {}; check the tokenizer's file",
                      info_.tokenizer, ids[i], info_.token_count + static_cast<int64_t>(i),
                      info_.source, info_.vocab_size)};
    }
    for (const int32_t id : ids) info_.max_id = std::max<int64_t>(info_.max_id, id);
    info_.token_count += static_cast<int64_t>(ids.size());
    if (info_.token_bytes == 4) return write(as_text(ids), true);
    const std::vector<uint16_t> narrow(ids.begin(), ids.end());
    return write(as_text(narrow), true);
  }

  Status add(const Block& block) {
    ESPALIER_TRY(add(block.ids));
    for (const uint64_t length : block.lengths) stories_.push_back(stories_.back() + length);
    return {};
  }

  Status finish() {
    if (info_.token_count == 0) {
      return Failure{Code::kInvalidArgument, "the text '" + info_.source +
                                                 "' holds nothing to train on: only white space "
                                                 "and separators"};
    }
    info_.story_count = static_cast<int64_t>(stories_.size()) - 1;
    if (info_.story_count > 0) {
      const size_t end = kTokensAt + static_cast<size_t>(info_.token_count * info_.token_bytes);
      ESPALIER_TRY(write(std::string(stories_at(info_) - end, '\0'), true));
      ESPALIER_TRY(write(as_text(stories_), true));
    }
    info_.content_sha256 = content_.hex();
    const std::string header = header_text(info_);
    if (header.size() > kTokensAt - kHeaderAt) {
      return Failure{Code::kInvalidArgument, "the path '" + info_.source +
                                                 "' is too long for a token file's header; move "
                                                 "the text to a shorter path"};
    }
    std::string front(kMagic);
    const uint64_t length = header.size();
    front.append(reinterpret_cast<const char*>(&length), sizeof(length));
    const std::string hex = sha256_hex(header);
    for (size_t i = 0; i < hex.size(); i += 2) {
      front += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
    }
    front += header;
    ESPALIER_TRY(file_.write_at(0, std::as_bytes(std::span(front))));
    return file_.commit();
  }

 private:
  template <class T>
  static std::string_view as_text(const std::vector<T>& values) {
    return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
  }

  Status write(std::string_view bytes, bool content) {
    if (content) content_.update(bytes);
    return file_.write(bytes);
  }

  AtomicFile file_;
  TokenFile::Info info_;
  Sha256 content_;
  std::vector<uint64_t> stories_ = {0};
};

// Calls encode, adding to what it throws in which story of the source it was.
std::vector<int32_t> encode_story(const Tokenizer& tokenizer, const SourceText& source,
                                  std::string_view story) {
  try {
    return tokenizer.encode(story, false);
  } catch (const Error& error) {
    const auto at = story.data() - source.text().data();
    throw Error(fmt::format("'{}', in the story at byte {}: {}", source.name(), at, error.what()),
                error.code());
  }
}

Block encode_block(const Tokenizer& tokenizer, const SourceText& source,
                   std::span<const std::string_view> stories) {
  Block block;
  const auto end = tokenizer.end_of_text();
  for (const std::string_view story : stories) {
    std::vector<int32_t> ids = encode_story(tokenizer, source, story);
    if (end) ids.push_back(*end);
    block.lengths.push_back(ids.size());
    block.ids.insert(block.ids.end(), ids.begin(), ids.end());
    block.text_bytes += story.size() + kStorySeparator.size();
  }
  return block;
}

Status add_stories(Writer& writer, const SourceText& source, const Tokenizer& tokenizer,
                   const TokenizeOptions& options, size_t threads) {
  const auto stories = split_stories(source.text(), options.trim);
  std::span<const std::string_view> rest(stories);
  uint64_t done = 0;
  while (!rest.empty()) {
    std::vector<std::future<Block>> blocks;
    while (blocks.size() < threads && !rest.empty()) {
      size_t count = 0;
      for (size_t bytes = 0; count < rest.size() && bytes < kBlockBytes; ++count) {
        bytes += rest[count].size();
      }
      const auto policy = threads > 1 ? std::launch::async : std::launch::deferred;
      blocks.push_back(std::async(policy, [&, block = rest.first(count)] {
        return encode_block(tokenizer, source, block);
      }));
      rest = rest.subspan(count);
    }
    for (auto& future : blocks) {
      const Block block = future.get();
      ESPALIER_TRY(writer.add(block));
      done += block.text_bytes;
      if (options.progress)
        options.progress(std::min<uint64_t>(done, source.text().size()), source.text().size());
    }
  }
  if (options.progress) options.progress(source.text().size(), source.text().size());
  return {};
}

Status add_run(Writer& writer, const SourceText& source, const Tokenizer& tokenizer,
               const TokenizeOptions& options, size_t threads) {
  std::string_view rest = source.text();
  while (!rest.empty()) {
    const size_t cut =
        rest.size() <= kSegmentBytes ? rest.size() : tokenizer.cut_after(rest, kSegmentBytes);
    ESPALIER_TRY(writer.add(
        encode_parallel(tokenizer, rest.substr(0, cut), static_cast<int>(threads), false)));
    rest.remove_prefix(cut);
    if (options.progress)
      options.progress(source.text().size() - rest.size(), source.text().size());
  }
  return {};
}

}  // namespace

Result<TokenFile> build_token_file(const SourceText& source, const Tokenizer& tokenizer,
                                   const TokenizeOptions& options, const fs::path& path) {
  ESPALIER_TRY(check_utf8(source));
  TokenFile::Info info;
  info.tokenizer = tokenizer.name();
  info.tokenizer_digest = tokenizer_digest(tokenizer);
  info.vocab_size = tokenizer.vocab_size();
  info.token_bytes = info.vocab_size <= 65536 ? 2 : 4;
  info.trim = options.trim;
  info.source = source.name();
  info.source_size = static_cast<int64_t>(source.text().size());
  info.source_modified_ns = source.modified_ns();
  info.source_sha256 = source.sha256();
  const size_t threads = options.threads > 0 ? static_cast<size_t>(options.threads)
                                             : std::max(1U, std::thread::hardware_concurrency());
  try {
    ESPALIER_ASSIGN(AtomicFile file, AtomicFile::create(path));
    Writer writer(std::move(file), std::move(info));
    ESPALIER_TRY(writer.start());
    ESPALIER_TRY(has_stories(source.text())
                     ? add_stories(writer, source, tokenizer, options, threads)
                     : add_run(writer, source, tokenizer, options, threads));
    ESPALIER_TRY(writer.finish());
  } catch (const Error& error) {
    return Failure{error.code(), error.what()};
  }
  return TokenFile::open(path);
}

}  // namespace espalier
