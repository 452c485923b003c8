// A random order of [0, n) that is computed, not stored.
#pragma once

#include <cstdint>

namespace espalier {

// The finalizer of SplitMix64 (Steele, Lea, Flood 2014): mixes 64 bits one to one.
inline uint64_t mix64(uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

// A bijection of [0, n): a Feistel network over the smallest even number of bits that holds n,
// applied again while the result lies outside (cycle walking; Black and Rogaway 2002). The domain
// is below 4n, so a value takes fewer than four passes on average. The same on every platform.
class Permutation {
 public:
  // n >= 1.
  Permutation(uint64_t n, uint64_t seed, uint64_t epoch) : n_(n) {
    while (half_bits_ < 32 && (uint64_t{1} << (2 * half_bits_)) < n) ++half_bits_;
    for (int round = 0; round < kRounds; ++round) {
      keys_[round] = mix64(mix64(mix64(seed) ^ epoch) + static_cast<uint64_t>(round));
    }
  }

  uint64_t operator()(uint64_t i) const {
    do {
      i = pass(i);
    } while (i >= n_);
    return i;
  }

 private:
  static constexpr int kRounds = 8;

  uint64_t pass(uint64_t i) const {
    const uint64_t mask = (uint64_t{1} << half_bits_) - 1;
    uint64_t left = i >> half_bits_;
    uint64_t right = i & mask;
    for (const uint64_t key : keys_) {
      const uint64_t next = left ^ (mix64(right ^ key) & mask);
      left = right;
      right = next;
    }
    return (left << half_bits_) | right;
  }

  uint64_t n_;
  int half_bits_ = 1;
  uint64_t keys_[kRounds] = {};
};

}  // namespace espalier
