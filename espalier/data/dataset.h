// Datasets: rows of `seq_len` token ids and their targets.
//
// A text with separators gives a row for each story: its tokens, the end-of-text token last, cut to
// seq_len and padded with 0. A text without gives consecutive windows of seq_len tokens, the last
// one padded with 0. Targets are the row shifted left by one with 0 at the end.
//
// Token bins (bins.h), and texts without separators where data.sampling = "windows", give windows
// whose targets are the true next tokens (windows.h).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "espalier/base/error.h"
#include "espalier/data/bins.h"
#include "espalier/data/config.h"
#include "espalier/data/token_file.h"

namespace espalier {

// Where a loader's rows come from. Every member may be called from several threads at once.
class RowSource {
 public:
  virtual ~RowSource() = default;
  virtual int64_t rows() const = 0;
  virtual int64_t seq_len() const = 0;
  // 0: the loader goes through the rows. Otherwise it draws places in [0, starts()) for fill(),
  // with replacement, and rows() only says how many make an epoch.
  virtual int64_t starts() const { return 0; }
  // Writes row `row` in [0, rows()), or in [0, starts()); both spans have seq_len() elements.
  virtual Status fill(int64_t row, std::span<int32_t> tokens, std::span<int32_t> targets) const = 0;
};

// Immutable. Shares the tokens and the tokenizer with its splits.
class Dataset {
 public:
  // Of a tokenized text. The last rows, round(validation_fraction * all), are held out; where a
  // fraction above 0 rounds to none, one row is, if there are two. kInvalidArgument where
  // seq_len < 2 or the fraction is not in [0, 1). With sampling = "windows", which a text with
  // stories refuses, the same fraction of the tokens is held out instead of rows.
  static Result<std::shared_ptr<const Dataset>> create(TokenFile tokens,
                                                       std::shared_ptr<const Tokenizer> tokenizer,
                                                       int64_t seq_len,
                                                       double validation_fraction = 0,
                                                       const std::string& sampling = "epoch");
  // Of token bins: train() by `sampling`, "windows" or "epoch"; validation() always consecutive
  // windows, so that a loader of a fixed seed takes the same ones each time.
  static Result<std::shared_ptr<const Dataset>> create(TokenBins bins, int64_t seq_len,
                                                       const std::string& sampling = "epoch");

  // Of random ids below `vocab`: training rows without end, as far as any run goes, and 64 batches
  // of others held out.
  static Result<std::shared_ptr<const Dataset>> synthetic(const DataConfig& config, int64_t vocab);

  // Rows of both splits together.
  int64_t rows() const { return train_->rows() + validation_->rows(); }
  int64_t seq_len() const { return train_->seq_len(); }
  const std::shared_ptr<const Tokenizer>& tokenizer() const { return tokenizer_; }
  std::shared_ptr<const RowSource> train() const { return train_; }
  // Has no rows where nothing is held out.
  std::shared_ptr<const RowSource> validation() const { return validation_; }
  // kInvalidArgument where a token's id is not below a model's vocabulary size; the message names
  // the place, the id and both sizes. Bins are read through where they are at most 1 GiB, or the
  // model's vocabulary is smaller than the tokenizer's; in larger ones an id that is outside the
  // tokenizer's vocabulary makes its row fail.
  Status check_vocab(int64_t model_vocab) const;
  // 64 hex digits that tell the tokens from others: a token file's content_sha256, identity_of()
  // the bins, or a SHA-256 of what synthetic tokens depend on.
  const std::string& identity() const { return identity_; }

 private:
  Dataset() = default;
  Status check_bins(int64_t model_vocab) const;
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::shared_ptr<const RowSource> train_, validation_;
  std::string identity_;
  std::optional<TokenFile> text_;  // else bins_
  TokenBins bins_;
};

// Opens what a recipe's [data] table names: loads the tokenizer ("char": the text's alphabet),
// makes or finds the tokenized file, and splits; or opens token bins. Texts that are missing,
// empty, or not UTF-8 and settings out of range are failures that say so. `model_vocab` is the
// recipe's model.vocab_size, which synthetic tokens need; 0: not given.
Result<std::shared_ptr<const Dataset>> open_dataset(const DataConfig& config,
                                                    int64_t model_vocab = 0);

// The text that `config` names ("bin" and "synthetic" name none), and its tokenizer.
Result<SourceText> open_source(const DataConfig& config);
Result<std::shared_ptr<const Tokenizer>> open_tokenizer(const std::string& name,
                                                        const SourceText& source);

}  // namespace espalier
