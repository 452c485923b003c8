#include "espalier/data/synthetic.h"

#include "espalier/data/permutation.h"

namespace espalier {
namespace {

class SyntheticRows : public RowSource {
 public:
  SyntheticRows(int64_t rows, int64_t seq_len, int64_t vocab, uint64_t key)
      : rows_(rows), seq_len_(seq_len), vocab_(static_cast<uint64_t>(vocab)), key_(key) {}

  int64_t rows() const override { return rows_; }
  int64_t seq_len() const override { return seq_len_; }

  Status fill(int64_t row, std::span<int32_t> tokens, std::span<int32_t> targets) const override {
    const uint64_t key = mix64(key_ ^ static_cast<uint64_t>(row));
    // The high half of a random 64-bit number times the vocabulary.
    const auto at = [&](size_t t) {
      const uint64_t random = mix64(key ^ t);
      return static_cast<int32_t>(static_cast<unsigned __int128>(random) * vocab_ >> 64);
    };
    for (size_t t = 0; t < tokens.size(); ++t) tokens[t] = at(t);
    for (size_t t = 0; t + 1 < targets.size(); ++t) targets[t] = tokens[t + 1];
    targets.back() = at(tokens.size());
    return {};
  }

 private:
  int64_t rows_, seq_len_;
  uint64_t vocab_, key_;
};

}  // namespace

std::shared_ptr<const RowSource> synthetic_rows(int64_t rows, int64_t seq_len, int64_t vocab,
                                                uint64_t seed, bool held_out) {
  const uint64_t key = mix64(mix64(seed) ^ (held_out ? 1 : 0));
  return std::make_shared<SyntheticRows>(rows, seq_len, vocab, key);
}

}  // namespace espalier
