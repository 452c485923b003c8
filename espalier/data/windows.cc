#include "espalier/data/windows.h"

#include <fmt/format.h>

#include <algorithm>

namespace espalier {
namespace {

class Windows : public RowSource {
 public:
  Windows(std::vector<TokenRun> runs, int64_t seq_len, int64_t vocab, bool random)
      : runs_(std::move(runs)), seq_len_(seq_len), vocab_(vocab) {
    for (const TokenRun& run : runs_) {
      const int64_t consecutive = std::max<int64_t>(run.count - 1, 0) / seq_len;
      rows_ += consecutive;
      places_.push_back((places_.empty() ? 0 : places_.back()) +
                        (random ? std::max<int64_t>(run.count - seq_len, 0) : consecutive));
    }
    if (random && !places_.empty()) starts_ = places_.back();
    stride_ = random ? 1 : seq_len;
  }

  int64_t rows() const override { return rows_; }
  int64_t seq_len() const override { return seq_len_; }
  int64_t starts() const override { return starts_; }

  Status fill(int64_t place, std::span<int32_t> tokens, std::span<int32_t> targets) const override {
    const auto found = std::upper_bound(places_.begin(), places_.end(), place);
    const TokenRun& run = runs_[static_cast<size_t>(found - places_.begin())];
    const int64_t before = found == places_.begin() ? 0 : *(found - 1);
    const int64_t begin = (place - before) * stride_;
    run.copy(begin, tokens);
    std::copy(tokens.begin() + 1, tokens.end(), targets.begin());
    run.copy(begin + seq_len_, targets.last(1));
    ESPALIER_TRY(check(run, begin, tokens));
    return check(run, begin + seq_len_, targets.last(1));
  }

 private:
  Status check(const TokenRun& run, int64_t begin, std::span<const int32_t> ids) const {
    // As unsigned numbers, negative ones are outside too.
    const auto limit = static_cast<uint32_t>(vocab_);
    uint32_t largest = 0;
    for (const int32_t id : ids) largest = std::max(largest, static_cast<uint32_t>(id));
    if (largest < limit) return {};
    const auto bad = std::find_if(ids.begin(), ids.end(),
                                  [&](int32_t id) { return static_cast<uint32_t>(id) >= limit; });
    return Failure{Code::kInvalidArgument,
                   fmt::format("token {} of '{}' has the id {}, outside the tokenizer's vocabulary "
                               "of {}; set data.tokenizer to the one that made the file, or "
                               "prepare the data again",
                               begin + (bad - ids.begin()), run.file.path().string(),
                               static_cast<uint32_t>(*bad), vocab_)};
  }

  std::vector<TokenRun> runs_;
  int64_t seq_len_, vocab_;
  int64_t rows_ = 0, starts_ = 0, stride_ = 1;
  std::vector<int64_t> places_;  // of the runs up to each, it included
};

}  // namespace

std::shared_ptr<const RowSource> consecutive_windows(std::vector<TokenRun> runs, int64_t seq_len,
                                                     int64_t vocab) {
  return std::make_shared<Windows>(std::move(runs), seq_len, vocab, false);
}

std::shared_ptr<const RowSource> random_windows(std::vector<TokenRun> runs, int64_t seq_len,
                                                int64_t vocab) {
  return std::make_shared<Windows>(std::move(runs), seq_len, vocab, true);
}

}  // namespace espalier
