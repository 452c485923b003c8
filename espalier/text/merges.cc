#include "espalier/text/merges.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>
#include <queue>

namespace espalier {
namespace {

constexpr int kIdBits = 21;
constexpr uint64_t kEmptyPair = ~uint64_t{0};
constexpr uint32_t kNoRank = ~uint32_t{0};
constexpr size_t kLongestShortToken = 16;
// Pieces up to this many bytes are merged by scanning all pairs; near it a heap begins to pay.
constexpr size_t kLongestScan = 96;

uint64_t load(const char* from, size_t bytes) {
  uint64_t out = 0;
  std::memcpy(&out, from, bytes);
  return out;
}

// Mixes two words to one by a 128-bit product.
uint64_t mix(uint64_t a, uint64_t b) {
  const auto product = static_cast<unsigned __int128>(a ^ 0x9e3779b97f4a7c15u) *
                       static_cast<unsigned __int128>(b ^ 0xd6e8feb86659fd93u);
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

uint64_t pair_hash(uint64_t pair) {
  const uint64_t product = pair * 0x9e3779b97f4a7c15u;
  return product ^ product >> 32;
}

// Value of a base64 digit, -1 for any other byte.
int base64_digit(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  return c == '+' ? 62 : c == '/' ? 63 : -1;
}

// Decodes padded base64 (RFC 4648); false where it is malformed or empty.
bool decode_base64(std::string_view text, std::string& out) {
  out.clear();
  if (text.empty() || text.size() % 4 != 0) return false;
  size_t digits = text.size();
  while (digits > text.size() - 2 && text[digits - 1] == '=') --digits;
  uint32_t bits = 0;
  int count = 0;
  for (size_t i = 0; i < digits; ++i) {
    const int value = base64_digit(text[i]);
    if (value < 0) return false;
    bits = bits << 6 | static_cast<uint32_t>(value);
    count += 6;
    if (count >= 8) {
      count -= 8;
      out.push_back(static_cast<char>(bits >> count & 0xff));
    }
  }
  return true;
}

}  // namespace

Result<Merges> Merges::parse(std::string_view rank_file, std::string_view where) {
  std::vector<std::string> tokens;
  int64_t line_number = 0;
  const auto broken = [&](const std::string& what) {
    return Failure{Code::kDataLoss, std::string(where) + ":" + std::to_string(line_number) + ": " +
                                        what +
                                        "; a rank file has lines `base64 rank` with ranks 0, 1, 2, "
                                        "... (fetch it again if it was cut or altered)"};
  };
  std::string token;
  for (size_t at = 0; at < rank_file.size();) {
    ++line_number;
    const size_t end = std::min(rank_file.find('\n', at), rank_file.size());
    std::string_view line = rank_file.substr(at, end - at);
    at = end + 1;
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    if (line.empty()) continue;
    const size_t blank = line.find(' ');
    if (blank == std::string_view::npos) return broken("no blank between token and rank");
    if (!decode_base64(line.substr(0, blank), token)) return broken("token is not base64");
    uint32_t rank = 0;
    const char* last = line.data() + line.size();
    const auto [stop, error] = std::from_chars(line.data() + blank + 1, last, rank);
    if (error != std::errc() || stop != last) return broken("rank is not a number");
    if (rank != tokens.size()) {
      return broken("rank " + std::to_string(rank) + " where " + std::to_string(tokens.size()) +
                    " is due");
    }
    if (rank >> 20 != 0) return broken("more than 1048576 ranks");
    tokens.push_back(token);
  }
  Merges out;
  ESPALIER_TRY(out.set_tokens(tokens, where));
  out.index_pairs(out.pairs_by_bytes());
  return out;
}

Result<Merges> Merges::create(const std::vector<std::string>& tokens,
                              const std::vector<Pair>& merges, bool whole_first,
                              std::string_view where) {
  if (tokens.size() >> 20 != 0 || merges.size() >> 20 != 0) {
    return Failure{Code::kUnimplemented, std::string(where) + ": " + std::to_string(tokens.size()) +
                                             " tokens and " + std::to_string(merges.size()) +
                                             " merges; at most 1048575 of each are supported"};
  }
  Merges out;
  out.whole_first_ = whole_first;
  ESPALIER_TRY(out.set_tokens(tokens, where));
  std::unordered_map<uint64_t, uint32_t> ranks;
  for (const Pair& pair : merges) {
    const auto left = static_cast<uint64_t>(pair.left), right = static_cast<uint64_t>(pair.right);
    ranks[left << kIdBits | right] = static_cast<uint32_t>(out.merged_.size());
    out.merged_.push_back(static_cast<uint32_t>(pair.merged));
  }
  std::vector<uint64_t> found;
  found.reserve(ranks.size());
  for (const auto& [pair, rank] : ranks) found.push_back(pair << kIdBits | rank);
  out.index_pairs(found);
  return out;
}

Status Merges::set_tokens(const std::vector<std::string>& tokens, std::string_view where) {
  offsets_.push_back(0);
  for (const std::string& t : tokens) {
    bytes_ += t;
    offsets_.push_back(static_cast<uint32_t>(bytes_.size()));
  }
  return index_tokens(where);
}

Status Merges::index_tokens(std::string_view where) {
  short_tokens_.resize(std::bit_ceil(static_cast<size_t>(size()) * 2 + 1));
  for (int32_t id = 0; id < size(); ++id) {
    const std::string_view token = bytes(id);
    if (find(token) >= 0) {
      return Failure{Code::kDataLoss, std::string(where) + ": ranks " +
                                          std::to_string(find(token)) + " and " +
                                          std::to_string(id) + " have the same bytes"};
    }
    if (token.size() > kLongestShortToken) {
      long_tokens_.emplace(token, id);
      continue;
    }
    ShortToken key = key_of(token);
    key.id = id;
    size_t slot = hash_of(key);
    while (short_tokens_[slot & (short_tokens_.size() - 1)].length != 0) ++slot;
    short_tokens_[slot & (short_tokens_.size() - 1)] = key;
  }
  for (int byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(byte);
    const int32_t id = find(std::string_view(&c, 1));
    if (id < 0) {
      return Failure{Code::kDataLoss, std::string(where) + ": no rank for the single byte " +
                                          std::to_string(byte) +
                                          "; a byte-level vocabulary has all 256"};
    }
    byte_ids_[byte] = static_cast<uint32_t>(id);
  }
  return {};
}

// Every way to part a token into two tokens: merging then looks up two ids instead of bytes.
std::vector<uint64_t> Merges::pairs_by_bytes() const {
  std::vector<uint64_t> found;
  for (int32_t id = 0; id < size(); ++id) {
    const std::string_view token = bytes(id);
    for (size_t cut = 1; cut < token.size(); ++cut) {
      const int32_t left = find(token.substr(0, cut));
      if (left < 0) continue;
      const int32_t right = find(token.substr(cut));
      if (right < 0) continue;
      found.push_back(static_cast<uint64_t>(left) << 2 * kIdBits |
                      static_cast<uint64_t>(right) << kIdBits | static_cast<uint64_t>(id));
    }
  }
  return found;
}

void Merges::index_pairs(const std::vector<uint64_t>& found) {
  pairs_.assign(std::bit_ceil(found.size() * 2 + 1), kEmptyPair);
  for (const uint64_t pair : found) {
    size_t slot = pair_hash(pair >> kIdBits);
    while (pairs_[slot & (pairs_.size() - 1)] != kEmptyPair) ++slot;
    pairs_[slot & (pairs_.size() - 1)] = pair;
  }
}

Merges::ShortToken Merges::key_of(std::string_view piece) {
  const char* p = piece.data();
  const size_t n = piece.size();
  ShortToken key;
  key.length = static_cast<uint32_t>(n);
  // Fixed-size loads that may overlap: no read beyond the piece, no loop over its bytes.
  if (n >= 8) {
    key.low = load(p, 8);
    key.high = load(p + n - 8, 8);
  } else if (n >= 4) {
    key.low = load(p, 4) | load(p + n - 4, 4) << 32;
  } else if (n > 0) {
    key.low = load(p, 1) | load(p + n / 2, 1) << 8 | load(p + n - 1, 1) << 16;
  }
  return key;
}

uint64_t Merges::hash_of(const ShortToken& key) { return mix(key.low ^ key.length, key.high); }

int32_t Merges::find(std::string_view piece) const {
  if (piece.size() > kLongestShortToken) {
    const auto found = long_tokens_.find(piece);
    return found == long_tokens_.end() ? -1 : found->second;
  }
  const ShortToken key = key_of(piece);
  for (size_t slot = hash_of(key);; ++slot) {
    const ShortToken& at = short_tokens_[slot & (short_tokens_.size() - 1)];
    if (at.length == 0) return -1;
    if (at.low == key.low && at.high == key.high && at.length == key.length) return at.id;
  }
}

uint32_t Merges::pair_rank(uint32_t left, uint32_t right) const {
  const uint64_t pair = static_cast<uint64_t>(left) << kIdBits | right;
  for (size_t slot = pair_hash(pair);; ++slot) {
    const uint64_t at = pairs_[slot & (pairs_.size() - 1)];
    if (at >> kIdBits == pair) return static_cast<uint32_t>(at & ((1u << kIdBits) - 1));
    if (at == kEmptyPair) return kNoRank;
  }
}

void Merges::encode(std::string_view piece, std::vector<int32_t>& ids) const {
  if (const int32_t whole = whole_first_ ? find(piece) : -1; whole >= 0) {
    ids.push_back(whole);
  } else if (piece.size() <= kLongestScan) {
    encode_short(piece, ids);
  } else {
    encode_long(piece, ids);
  }
}

void Merges::encode_short(std::string_view piece, std::vector<int32_t>& ids) const {
  // ranks[i] is that of merging parts[i] and parts[i + 1].
  uint32_t parts[kLongestScan];
  uint32_t ranks[kLongestScan];
  size_t count = piece.size();
  for (size_t i = 0; i < count; ++i) parts[i] = byte_ids_[static_cast<uint8_t>(piece[i])];
  for (size_t i = 0; i + 1 < count; ++i) ranks[i] = pair_rank(parts[i], parts[i + 1]);
  while (count > 1) {
    const size_t best = std::min_element(ranks, ranks + count - 1) - ranks;
    if (ranks[best] == kNoRank) break;
    parts[best] = merged(ranks[best]);
    --count;
    for (size_t i = best + 1; i < count; ++i) parts[i] = parts[i + 1];
    for (size_t i = best; i + 1 < count; ++i) ranks[i] = ranks[i + 1];
    if (best > 0) ranks[best - 1] = pair_rank(parts[best - 1], parts[best]);
    if (best + 1 < count) ranks[best] = pair_rank(parts[best], parts[best + 1]);
  }
  ids.insert(ids.end(), parts, parts + count);
}

void Merges::encode_long(std::string_view piece, std::vector<int32_t>& ids) const {
  // A doubly linked list of parts in the positions of their first bytes, and a heap of their ranks
  // with the next part. A heap entry is out of date when the part's rank has changed since.
  struct Part {
    uint32_t id, rank;
    size_t previous, next;
  };
  const size_t end = piece.size();
  std::vector<Part> parts(end);
  using Entry = std::pair<uint32_t, size_t>;  // rank, then position: leftmost among equals
  std::vector<Entry> entries;
  for (size_t i = 0; i < end; ++i) {
    parts[i] = {byte_ids_[static_cast<uint8_t>(piece[i])], kNoRank, i - 1, i + 1};
  }
  for (size_t i = 0; i + 1 < end; ++i) {
    parts[i].rank = pair_rank(parts[i].id, parts[i + 1].id);
    if (parts[i].rank != kNoRank) entries.emplace_back(parts[i].rank, i);
  }
  std::priority_queue heap(std::greater<Entry>(), std::move(entries));
  const auto update = [&](size_t at) {
    Part& part = parts[at];
    part.rank = part.next == end ? kNoRank : pair_rank(part.id, parts[part.next].id);
    if (part.rank != kNoRank) heap.emplace(part.rank, at);
  };
  while (!heap.empty()) {
    const auto [rank, at] = heap.top();
    heap.pop();
    Part& part = parts[at];
    if (part.rank != rank) continue;
    Part& gone = parts[part.next];
    gone.rank = kNoRank;
    part.id = merged(rank);
    part.next = gone.next;
    if (part.next != end) parts[part.next].previous = at;
    update(at);
    if (at > 0) update(part.previous);
  }
  for (size_t i = 0; i < end; i = parts[i].next) ids.push_back(static_cast<int32_t>(parts[i].id));
}

}  // namespace espalier
