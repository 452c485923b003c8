// Merges: a byte-level BPE vocabulary and its merge rule, for one piece of text at a time.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "espalier/base/error.h"

namespace espalier {

// Immutable after parse(); safe to use from several threads.
class Merges {
 public:
  // Reads a rank file's text: lines `base64 rank`, each rank 0 .. n-1 once, each byte string once,
  // all 256 single bytes among them, n at most 2^20. `where` names the file in messages; a broken
  // line is kDataLoss naming it.
  static Result<Merges> parse(std::string_view rank_file, std::string_view where);

  // Two adjacent tokens and the token that they become.
  struct Pair {
    int32_t left = 0, right = 0, merged = 0;
  };
  // From byte strings by id, as above, and merges in the order of their priority; of a pair that is
  // there twice the later counts. `whole_first`: a piece that is a token as a whole is that token
  // also where merging would not make it. At most 2^20 tokens and 2^20 merges.
  static Result<Merges> create(const std::vector<std::string>& tokens,
                               const std::vector<Pair>& merges, bool whole_first,
                               std::string_view where);

  Merges(Merges&&) = default;
  Merges& operator=(Merges&&) = default;

  int32_t size() const { return static_cast<int32_t>(offsets_.size() - 1); }

  // The bytes of a token, 0 <= id < size().
  std::string_view bytes(int32_t id) const {
    return std::string_view(bytes_).substr(offsets_[id], offsets_[id + 1] - offsets_[id]);
  }

  // Id of a byte string that is a token as a whole, else -1.
  int32_t find(std::string_view piece) const;

  // Appends the ids of one piece: its own where it is a token as a whole and that comes first,
  // otherwise what is left when adjacent parts that may be merged are, lowest rank first and
  // leftmost among equals, until none may. Of a rank file two parts may be merged that together are
  // a token, whose rank it is. O(n log n) in the piece's bytes.
  void encode(std::string_view piece, std::vector<int32_t>& ids) const;

 private:
  // Tokens of up to 16 bytes, keyed by two words that with the length determine the bytes.
  struct ShortToken {
    uint64_t low = 0, high = 0;
    uint32_t length = 0;  // 0: an empty slot
    int32_t id = 0;
  };

  // Looks up a std::string by a view, without a copy.
  struct ViewHash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };

  Merges() = default;
  static ShortToken key_of(std::string_view piece);
  static uint64_t hash_of(const ShortToken& key);
  Status set_tokens(const std::vector<std::string>& tokens, std::string_view where);
  Status index_tokens(std::string_view where);
  std::vector<uint64_t> pairs_by_bytes() const;
  void index_pairs(const std::vector<uint64_t>& found);
  uint32_t merged(uint32_t rank) const { return merged_.empty() ? rank : merged_[rank]; }
  uint32_t pair_rank(uint32_t left, uint32_t right) const;
  void encode_short(std::string_view piece, std::vector<int32_t>& ids) const;
  void encode_long(std::string_view piece, std::vector<int32_t>& ids) const;

  std::string bytes_;              // all tokens, by rank
  std::vector<uint32_t> offsets_;  // size() + 1 positions in bytes_
  std::array<uint32_t, 256> byte_ids_{};
  // Open addressing; sizes are powers of two, at most half full.
  std::vector<ShortToken> short_tokens_;
  std::vector<uint64_t> pairs_;   // left << 42 | right << 21 | rank; ~0 where empty
  std::vector<uint32_t> merged_;  // the token that a rank makes; empty: that of its number
  bool whole_first_ = true;
  std::unordered_map<std::string, int32_t, ViewHash, std::equal_to<>> long_tokens_;
};

}  // namespace espalier
