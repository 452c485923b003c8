#include "espalier/data/dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "espalier/data/stories.h"

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

Failure invalid(std::string message) { return {Code::kInvalidArgument, std::move(message)}; }

}  // namespace

Result<std::shared_ptr<const Dataset>> Dataset::create(TokenFile tokens,
                                                       std::shared_ptr<const Tokenizer> tokenizer,
                                                       int64_t seq_len,
                                                       double validation_fraction) {
  if (seq_len < 2) {
    return invalid(fmt::format("data.seq_len must be at least 2, got {}", seq_len));
  }
  if (!(validation_fraction >= 0 && validation_fraction < 1)) {
    return invalid(fmt::format("data.validation_fraction must be at least 0 and below 1, got {}",
                               validation_fraction));
  }
  std::shared_ptr<Dataset> out(new Dataset(std::move(tokens), std::move(tokenizer), seq_len));
  const TokenFile& file = out->tokens_;
  out->rows_ = file.has_stories() ? file.info().story_count : (file.size() + seq_len - 1) / seq_len;
  int64_t held = std::llround(validation_fraction * static_cast<double>(out->rows_));
  if (validation_fraction > 0) held = std::max<int64_t>(held, 1);
  out->train_rows_ = out->rows_ - std::min(held, out->rows_ - 1);
  return std::shared_ptr<const Dataset>(std::move(out));
}

std::shared_ptr<const RowSource> Dataset::train() const {
  return std::make_shared<Rows>(tokens_, seq_len_, 0, train_rows_);
}

std::shared_ptr<const RowSource> Dataset::validation() const {
  return std::make_shared<Rows>(tokens_, seq_len_, train_rows_, rows_ - train_rows_);
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
                 "'; use \"stories\", \"text\" with data.path, or \"tinystories\"");
}

Result<std::shared_ptr<const Tokenizer>> open_tokenizer(const std::string& name,
                                                        const SourceText& source) {
  if (name != "char") return load_tokenizer(name);
  ESPALIER_TRY(check_utf8(source));
  return char_tokenizer(source.text());
}

Result<std::shared_ptr<const Dataset>> open_dataset(const DataConfig& config) {
  ESPALIER_ASSIGN(const SourceText source, open_source(config));
  ESPALIER_ASSIGN(auto tokenizer, open_tokenizer(config.tokenizer, source));
  ESPALIER_ASSIGN(TokenFile tokens,
                  open_or_build(source, *tokenizer, {.trim = config.trim}, config.cache_dir));
  return Dataset::create(std::move(tokens), std::move(tokenizer), config.seq_len,
                         config.validation_fraction);
}

}  // namespace espalier
