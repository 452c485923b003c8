// Datasets: rows of `seq_len` token ids and their targets.
//
// A text with separators gives a row for each story: its tokens, the end-of-text token last, cut to
// seq_len and padded with 0. A text without gives consecutive windows of seq_len tokens, the last
// one padded with 0. Targets are the row shifted left by one with 0 at the end.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "espalier/base/error.h"
#include "espalier/data/config.h"
#include "espalier/data/token_file.h"

namespace espalier {

// Where a loader's rows come from. Every member may be called from several threads at once.
class RowSource {
 public:
  virtual ~RowSource() = default;
  virtual int64_t rows() const = 0;
  virtual int64_t seq_len() const = 0;
  // Writes row `row` in [0, rows()); both spans have seq_len() elements.
  virtual Status fill(int64_t row, std::span<int32_t> tokens, std::span<int32_t> targets) const = 0;
};

// Immutable. Shares the token file and the tokenizer with its splits.
class Dataset {
 public:
  // The last rows, round(validation_fraction * all), are held out; where a fraction above 0 rounds
  // to none, one row is, if there are two. kInvalidArgument where seq_len < 2 or the fraction is
  // not in [0, 1).
  static Result<std::shared_ptr<const Dataset>> create(TokenFile tokens,
                                                       std::shared_ptr<const Tokenizer> tokenizer,
                                                       int64_t seq_len,
                                                       double validation_fraction = 0);

  // Rows of both splits together.
  int64_t rows() const { return rows_; }
  int64_t seq_len() const { return seq_len_; }
  const TokenFile& tokens() const { return tokens_; }
  const std::shared_ptr<const Tokenizer>& tokenizer() const { return tokenizer_; }
  std::shared_ptr<const RowSource> train() const;
  // Has no rows where nothing is held out.
  std::shared_ptr<const RowSource> validation() const;
  // See TokenFile::check_vocab.
  Status check_vocab(int64_t model_vocab) const { return tokens_.check_vocab(model_vocab); }

 private:
  Dataset(TokenFile tokens, std::shared_ptr<const Tokenizer> tokenizer, int64_t seq_len)
      : tokens_(std::move(tokens)), tokenizer_(std::move(tokenizer)), seq_len_(seq_len) {}
  TokenFile tokens_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  int64_t seq_len_;
  int64_t rows_ = 0;
  int64_t train_rows_ = 0;
};

// Opens what a recipe's [data] table names: loads the tokenizer ("char": the text's alphabet),
// makes or finds the tokenized file, and splits. Texts that are missing, empty, or not UTF-8 and
// settings out of range are failures that say so.
Result<std::shared_ptr<const Dataset>> open_dataset(const DataConfig& config);

// The text that `config` names, and its tokenizer.
Result<SourceText> open_source(const DataConfig& config);
Result<std::shared_ptr<const Tokenizer>> open_tokenizer(const std::string& name,
                                                        const SourceText& source);

}  // namespace espalier
