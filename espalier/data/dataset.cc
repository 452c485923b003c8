#include "espalier/data/dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "espalier/base/sha256.h"
#include "espalier/data/stories.h"
#include "espalier/data/synthetic.h"
#include "espalier/data/windows.h"
#include "espalier/text/no_tokenizer.h"

namespace espalier {
namespace {

class Rows : public RowSource {
 public:
  Rows(TokenFile tokens, int64_t seq_len, int64_t first, int64_t count)
      : tokens_(std::move(tokens)), seq_len_(seq_len), first_(first), count_(count) {}

  int64_t rows() const override { return count_; }
  int64_t seq_len() const override { return seq_len_; }

  Status fill(int64_t row, std::span<int32_t> tokens, std::span<int32_t> targets) const override {
    const int64_t at = first_ + row;
    const bool stories = tokens_.has_stories();
    const int64_t begin = stories ? tokens_.story_begin(at) : at * seq_len_;
    const int64_t end = stories ? tokens_.story_begin(at + 1) : tokens_.size();
    const auto length = static_cast<size_t>(std::min(end - begin, seq_len_));
    tokens_.copy(begin, tokens.first(length));
    std::fill(tokens.begin() + static_cast<ptrdiff_t>(length), tokens.end(), 0);
    std::copy(tokens.begin() + 1, tokens.end(), targets.begin());
    targets.back() = 0;
    return {};
  }

 private:
  TokenFile tokens_;
  int64_t seq_len_, first_, count_;
};

// Bytes of bins whose ids are all looked at before a run.
constexpr int64_t kAlwaysChecked = int64_t{1} << 30;

Failure invalid(std::string message) { return {Code::kInvalidArgument, std::move(message)}; }

Status check_settings(int64_t seq_len, const std::string& sampling) {
  if (seq_len < 2) {
    return invalid(fmt::format("data.seq_len must be at least 2, got {}", seq_len));
  }
  if (sampling != "epoch" && sampling != "windows") {
    return invalid("data.sampling must be \"epoch\" or \"windows\", got \"" + sampling + "\"");
  }
  return {};
}

}  // namespace

Result<std::shared_ptr<const Dataset>> Dataset::create(TokenFile tokens,
                                                       std::shared_ptr<const Tokenizer> tokenizer,
                                                       int64_t seq_len, double validation_fraction,
                                                       const std::string& sampling) {
  ESPALIER_TRY(check_settings(seq_len, sampling));
  if (!(validation_fraction >= 0 && validation_fraction < 1)) {
    return invalid(fmt::format("data.validation_fraction must be at least 0 and below 1, got {}",
                               validation_fraction));
  }
  const bool windows = sampling == "windows";
  if (windows && tokens.has_stories()) {
    return invalid(
        "data.sampling = \"windows\" cuts rows out of one run of tokens, and '" +
        tokens.info().source +
        "' has stories, which are rows themselves; set data.sampling = \"epoch\", or make token "
        "bins of it by `espalier prepare` and use data.source = \"bin\"");
  }
  const int64_t all = windows                ? tokens.size()
                      : tokens.has_stories() ? tokens.info().story_count
                                             : (tokens.size() + seq_len - 1) / seq_len;
  int64_t held = std::llround(validation_fraction * static_cast<double>(all));
  if (validation_fraction > 0) held = std::max<int64_t>(held, 1);
  const int64_t kept = all - std::min(held, all - 1);
  std::shared_ptr<Dataset> out(new Dataset);
  if (windows) {
    const int64_t vocab = tokenizer->vocab_size();
    out->train_ = random_windows({tokens.run(0, kept)}, seq_len, vocab);
    out->validation_ = consecutive_windows({tokens.run(kept, all)}, seq_len, vocab);
  } else {
    out->train_ = std::make_shared<Rows>(tokens, seq_len, 0, kept);
    out->validation_ = std::make_shared<Rows>(tokens, seq_len, kept, all - kept);
  }
  out->tokenizer_ = std::move(tokenizer);
  out->identity_ = tokens.info().content_sha256;
  out->text_ = std::move(tokens);
  return std::shared_ptr<const Dataset>(std::move(out));
}

Result<std::shared_ptr<const Dataset>> Dataset::create(TokenBins bins, int64_t seq_len,
                                                       const std::string& sampling) {
  ESPALIER_TRY(check_settings(seq_len, sampling));
  const int64_t vocab = bins.tokenizer->vocab_size();
  std::shared_ptr<Dataset> out(new Dataset);
  out->train_ = sampling == "windows" ? random_windows(bins.train, seq_len, vocab)
                                      : consecutive_windows(bins.train, seq_len, vocab);
  out->validation_ = consecutive_windows(bins.val, seq_len, vocab);
  out->tokenizer_ = bins.tokenizer;
  out->identity_ = identity_of(bins);
  out->bins_ = std::move(bins);
  return std::shared_ptr<const Dataset>(std::move(out));
}

Result<std::shared_ptr<const Dataset>> Dataset::synthetic(const DataConfig& config, int64_t vocab) {
  ESPALIER_TRY(check_settings(config.seq_len, config.sampling));
  if (vocab < 1 || vocab > std::numeric_limits<int32_t>::max()) {
    return invalid(
        fmt::format("data.source = \"synthetic\" needs model.vocab_size, the number of "
                    "ids to draw from, got {}",
                    vocab));
  }
  if (config.sampling == "windows") {
    return invalid(
        "data.sampling = \"windows\" cuts rows out of one run of tokens, and data.source = "
        "\"synthetic\" has none; leave it out");
  }
  constexpr int64_t kRows = int64_t{1} << 40, kHeldOutBatches = 64;
  std::shared_ptr<Dataset> out(new Dataset);
  out->train_ = synthetic_rows(kRows, config.seq_len, vocab, config.seed, false);
  out->validation_ =
      synthetic_rows(kHeldOutBatches * config.batch_size, config.seq_len, vocab, config.seed, true);
  out->tokenizer_ = no_tokenizer(static_cast<int32_t>(vocab));
  out->identity_ = sha256_hex(fmt::format("synthetic tokens, {} ids, seed {}", vocab, config.seed));
  return std::shared_ptr<const Dataset>(std::move(out));
}

Status Dataset::check_vocab(int64_t model_vocab) const {
  return text_ ? text_->check_vocab(model_vocab) : check_bins(model_vocab);
}

Status Dataset::check_bins(int64_t model_vocab) const {
  const int64_t ids = tokenizer_->vocab_size();
  int64_t bytes = 0;
  for (const auto* runs : {&bins_.train, &bins_.val}) {
    for (const TokenRun& run : *runs) bytes += run.count * run.token_bytes;
  }
  if (model_vocab >= ids && bytes > kAlwaysChecked) return {};
  for (const auto* runs : {&bins_.train, &bins_.val}) {
    const auto outside = first_id_outside(*runs, std::min(model_vocab, ids));
    if (!outside) continue;
    return invalid(
        model_vocab < ids
            ? fmt::format("{}, outside the model's vocabulary of {}; the tokenizer '{}' has {} "
                          "ids: set the model's vocabulary size to at least {}, or choose another "
                          "tokenizer",
                          *outside, model_vocab, tokenizer_->name(), ids, ids)
            : fmt::format("{}, outside the {} ids of the tokenizer '{}'; {}", *outside, ids,
                          tokenizer_->name(),
                          bins_.has_meta ? "prepare the data again"
                                         : "set data.tokenizer to the one that made the file"));
  }
  return {};
}

Result<SourceText> open_source(const DataConfig& config) {
  if (config.source == "stories") {
    if (config.stories_count < 1) {
      return invalid(
          fmt::format("data.stories_count must be at least 1, got {}", config.stories_count));
    }
    return SourceText::embedded(
        fmt::format("stories-{}-{}", config.stories_count, config.stories_seed),
        make_stories(config.stories_count, config.stories_seed));
  }
  if (config.source == "tinystories") {
    const std::string path = config.path.empty() ? "data/TinyStories-train.txt" : config.path;
    auto source = SourceText::open(path);
    if (!source && source.failure().code == Code::kNotFound) {
      return Failure{Code::kNotFound,
                     source.failure().message +
                         "; fetch it with `espalier prepare tinystories --out data`, or name a "
                         "copy by data.path"};
    }
    return source;
  }
  if (config.source == "text" || config.source == "file") {
    if (config.path.empty()) {
      return invalid("data.source = \"" + config.source + "\" needs data.path, the text's file");
    }
    return SourceText::open(config.path);
  }
  return invalid("unknown data.source '" + config.source +
                 "'; use \"stories\", \"text\" or \"bin\" with data.path, or \"tinystories\"");
}

Result<std::shared_ptr<const Tokenizer>> open_tokenizer(const std::string& name,
                                                        const SourceText& source) {
  if (name != "char") return load_tokenizer(name);
  ESPALIER_TRY(check_utf8(source));
  return char_tokenizer(source.text());
}

Result<std::shared_ptr<const Dataset>> open_dataset(const DataConfig& config, int64_t model_vocab) {
  if (config.source == "synthetic") return Dataset::synthetic(config, model_vocab);
  if (config.source == "bin") {
    if (config.path.empty()) {
      return invalid("data.source = \"bin\" needs data.path, the folder of train.bin and val.bin");
    }
    ESPALIER_ASSIGN(TokenBins bins, open_bins(config.path, config.tokenizer));
    return Dataset::create(std::move(bins), config.seq_len, config.sampling);
  }
  ESPALIER_ASSIGN(const SourceText source, open_source(config));
  ESPALIER_ASSIGN(auto tokenizer, open_tokenizer(config.tokenizer, source));
  ESPALIER_ASSIGN(TokenFile tokens,
                  open_or_build(source, *tokenizer, {.trim = config.trim}, config.cache_dir));
  return Dataset::create(std::move(tokens), std::move(tokenizer), config.seq_len,
                         config.validation_fraction, config.sampling);
}

}  // namespace espalier
