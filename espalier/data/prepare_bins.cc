#include "espalier/data/prepare_bins.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <future>
#include <thread>

#include "espalier/data/bin_writer.h"
#include "espalier/data/documents.h"
#include "espalier/text/utf8.h"

namespace espalier {
namespace fs = std::filesystem;
namespace {

// Text that one task tokenizes, and about the most that a piece holds.
constexpr size_t kTaskBytes = size_t{1} << 20;

struct Part {
  Piece piece;
  Split split = Split::kTrain;
};

// A part's tokens, in the width of the files.
struct Encoded {
  std::string bytes;
  int64_t max_id = -1;
  Split split = Split::kTrain;
  bool ends = false;
};

struct Survey {
  bool one_text = false;
  int64_t characters = 0;  // of the one text
  std::string alphabet;    // every character once, where asked for
};

std::string bytes_of(const std::vector<int32_t>& ids, int64_t token_bytes) {
  if (token_bytes == 4) {
    return {reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof(int32_t)};
  }
  const std::vector<uint16_t> narrow(ids.begin(), ids.end());
  return {reinterpret_cast<const char*>(narrow.data()), narrow.size() * sizeof(uint16_t)};
}

int64_t max_of(const std::vector<int32_t>& ids) {
  return ids.empty() ? -1 : *std::max_element(ids.begin(), ids.end());
}

int64_t count_characters(std::string_view text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return !is_utf8_continuation(c); });
}

// Byte at which character `index` of the text begins.
size_t byte_of_character(std::string_view text, int64_t index) {
  size_t at = 0;
  for (; at < text.size(); ++at) {
    if (!is_utf8_continuation(text[at]) && index-- == 0) break;
  }
  return at;
}

Failure stopped() { return {Code::kCancelled, "stopped by a signal; nothing was written"}; }

class Preparation {
 public:
  Preparation(const std::vector<fs::path>& files, const BinOptions& options)
      : files_(files), options_(options) {}

  Result<BinMeta> run(const fs::path& folder) {
    ESPALIER_TRY(open_tokenizer());
    BinMeta asked;
    asked.val_fraction = options_.val_fraction;
    if (survey_.one_text) {
      train_characters_ = static_cast<int64_t>(static_cast<double>(survey_.characters) * 0.9);
      asked.val_fraction = 0.1;
    } else {
      end_of_text_ = tokenizer_->end_of_text();
    }
    for (const fs::path& file : files_) asked.sources.push_back(file.filename().string());
    asked.seed = options_.seed;
    asked.end_of_text = end_of_text_;
    ESPALIER_ASSIGN(BinWriter writer, BinWriter::create(folder, tokenizer_, std::move(asked)));
    token_bytes_ = writer.token_bytes();
    ESPALIER_TRY(tokenize(writer));
    return writer.commit();
  }

 private:
  DocumentOptions document_options() const {
    DocumentOptions out;
    out.text_key = options_.text_key;
    out.trim = options_.trim;
    out.web_text = options_.web_text;
    out.piece_bytes = kTaskBytes;
    if (tokenizer_) {
      out.cut_after = [this](std::string_view text, size_t near) {
        return tokenizer_->cut_after(text, near);
      };
    }
    return out;
  }

  Status report(std::string_view what, const DocumentStream& stream) const {
    if (options_.stop && options_.stop()) return stopped();
    if (options_.progress) options_.progress(what, stream.bytes_read(), stream.bytes_in_all());
    return {};
  }

  // Reads until it is known whether there is one text; to the end where it is, or for an alphabet.
  Status survey(bool alphabet) {
    DocumentStream stream(files_, document_options());
    std::vector<bool> seen(alphabet ? 0x110000 : 0);
    int64_t documents = 0, characters = 0;
    bool whole = true;
    Piece piece;
    ESPALIER_TRY(report("reading", stream));
    while (true) {
      ESPALIER_ASSIGN(const bool given, stream.next(piece));
      if (!given) break;
      ESPALIER_TRY(report("reading", stream));
      whole = whole && stream.whole_text();
      documents += piece.ends;
      if (!alphabet && (!whole || documents > 1)) return {};
      characters += count_characters(piece.text);
      for (size_t at = 0; alphabet && at < piece.text.size();) {
        const Utf8Char c = utf8_at(piece.text, at);
        seen[c.code_point] = true;
        at += c.size;
      }
    }
    survey_.one_text = whole && documents == 1;
    survey_.characters = characters;
    for (uint32_t c = 0; c < seen.size(); ++c) {
      if (seen[c]) append_utf8(c, survey_.alphabet);
    }
    return report("reading", stream);
  }

  Status open_tokenizer() {
    const bool alphabet = options_.tokenizer == "char";
    if (!alphabet) {
      ESPALIER_ASSIGN(tokenizer_, load_tokenizer(options_.tokenizer));
    }
    // Of several files, and of web texts, every one is a document.
    if (alphabet || (files_.size() == 1 && !options_.web_text)) ESPALIER_TRY(survey(alphabet));
    if (alphabet) tokenizer_ = char_tokenizer(survey_.alphabet);
    return {};
  }

  Encoded encode(const Part& part) const {
    std::vector<int32_t> ids;
    try {
      ids = tokenizer_->encode(part.piece.text, false);
    } catch (const Error& error) {
      const Piece& piece = part.piece;
      throw Error(fmt::format("'{}', {} {}: {}", piece.where,
                              piece.is_line ? "line" : "in the text that begins at byte",
                              piece.position, error.what()),
                  error.code());
    }
    if (part.piece.ends && end_of_text_) ids.push_back(*end_of_text_);
    const int64_t max_id = max_of(ids);
    if (max_id >= tokenizer_->vocab_size()) {
      throw Error(
          fmt::format("the tokenizer '{}' gave the id {}, outside its own vocabulary of {}; "
                      "check the tokenizer's file",
                      tokenizer_->name(), max_id, tokenizer_->vocab_size()));
    }
    return {bytes_of(ids, token_bytes_), max_id, part.split, part.piece.ends && !survey_.one_text};
  }

  // Where the piece goes; a piece of one text may go to both.
  void assign(Piece piece, std::vector<Part>& parts) {
    if (!survey_.one_text) {
      const Split split = draw_(documents_);
      documents_ += piece.ends;
      parts.push_back({std::move(piece), split});
      return;
    }
    const int64_t left = train_characters_ - characters_;
    const int64_t count = count_characters(piece.text);
    characters_ += count;
    if (left > 0 && left < count) {
      Piece rest = piece;
      const size_t cut = byte_of_character(piece.text, left);
      piece.text.resize(cut);
      piece.ends = false;
      rest.text.erase(0, cut);
      rest.position += cut;
      parts.push_back({std::move(piece), Split::kTrain});
      parts.push_back({std::move(rest), Split::kVal});
    } else {
      parts.push_back({std::move(piece), left > 0 ? Split::kTrain : Split::kVal});
    }
  }

  // The next parts, about kTaskBytes of text; none at the end.
  Result<std::vector<Part>> next_parts(DocumentStream& stream) {
    std::vector<Part> parts;
    for (size_t bytes = 0; bytes < kTaskBytes;) {
      Piece piece;
      ESPALIER_ASSIGN(const bool given, stream.next(piece));
      if (!given) break;
      bytes += piece.text.size() + sizeof(Part);
      assign(std::move(piece), parts);
    }
    return parts;
  }

  Status tokenize(BinWriter& writer) {
    const size_t threads = options_.threads > 0 ? static_cast<size_t>(options_.threads)
                                                : std::max(1U, std::thread::hardware_concurrency());
    DocumentStream stream(files_, document_options());
    std::deque<std::future<std::vector<Encoded>>> running;
    for (bool more = true; more || !running.empty();) {
      ESPALIER_TRY(report("tokenizing", stream));
      if (more) {
        ESPALIER_ASSIGN(auto parts, next_parts(stream));
        more = !parts.empty();
        if (more) {
          running.push_back(std::async(std::launch::async, [this, parts = std::move(parts)] {
            std::vector<Encoded> out;
            for (const Part& part : parts) out.push_back(encode(part));
            return out;
          }));
        }
      }
      while (!running.empty() && (!more || running.size() > threads)) {
        for (const Encoded& part : running.front().get()) {
          ESPALIER_TRY(writer.append(part.split, part.bytes, part.max_id, part.ends));
          any_ = any_ || !part.bytes.empty();
        }
        running.pop_front();
        if (!more) ESPALIER_TRY(report("tokenizing", stream));
      }
    }
    if (any_) return {};
    return Failure{Code::kInvalidArgument,
                   fmt::format("nothing to train on in '{}'{}: only white space, separators or "
                               "empty files",
                               files_.front().string(), files_.size() > 1 ? ", ..." : "")};
  }

  const std::vector<fs::path>& files_;
  const BinOptions& options_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  Survey survey_;
  std::optional<int32_t> end_of_text_;
  int64_t token_bytes_ = 2;
  ValDraw draw_{options_.val_fraction, options_.seed};
  uint64_t documents_ = 0;                         // given out
  int64_t characters_ = 0, train_characters_ = 0;  // of one text
  bool any_ = false;
};

Status check(const BinOptions& options) {
  if (options.val_fraction >= 0 && options.val_fraction <= 1) return {};
  return Failure{
      Code::kInvalidArgument,
      fmt::format("--val-fraction must be between 0 and 1, got {}", options.val_fraction)};
}

}  // namespace

Result<BinMeta> prepare_bins(const std::vector<fs::path>& files, const BinOptions& options,
                             const fs::path& folder) {
  ESPALIER_TRY(check(options));
  if (files.empty()) return Failure{Code::kInvalidArgument, "no files to prepare"};
  try {
    return Preparation(files, options).run(folder);
  } catch (const Error& error) {
    return Failure{error.code(), error.what()};
  }
}

Result<BinMeta> bins_of_stories(const TokenFile& train, const TokenFile* val,
                                std::shared_ptr<const Tokenizer> tokenizer,
                                const BinOptions& options, const fs::path& folder) {
  ESPALIER_TRY(check(options));
  BinMeta asked;
  asked.seed = options.seed;
  asked.val_fraction = val != nullptr ? 0 : options.val_fraction;
  asked.end_of_text = tokenizer->end_of_text();
  for (const TokenFile* file : {&train, val}) {
    if (file != nullptr) asked.sources.push_back(fs::path(file->info().source).filename().string());
  }
  const ValDraw draw(asked.val_fraction, options.seed);
  ESPALIER_ASSIGN(BinWriter writer, BinWriter::create(folder, std::move(tokenizer), asked));
  std::vector<int32_t> ids;
  const auto add = [&](const TokenFile& file, bool held) -> Status {
    for (int64_t i = 0; i < file.info().story_count; ++i) {
      if (options.stop && options.stop()) return stopped();
      ids.resize(static_cast<size_t>(file.story_begin(i + 1) - file.story_begin(i)));
      file.copy(file.story_begin(i), ids);
      const Split split = held ? Split::kVal : draw(static_cast<uint64_t>(i));
      ESPALIER_TRY(writer.append(split, bytes_of(ids, writer.token_bytes()), max_of(ids), true));
    }
    return {};
  };
  ESPALIER_TRY(add(train, false));
  if (val != nullptr) ESPALIER_TRY(add(*val, true));
  return writer.commit();
}

}  // namespace espalier
