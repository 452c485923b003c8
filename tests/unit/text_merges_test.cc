#include "espalier/text/merges.h"

#include <gtest/gtest.h>

#include <random>

namespace espalier {
namespace {

std::string base64(std::string_view bytes) {
  constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t word = 0;
    for (size_t k = 0; k < 3; ++k) {
      word = word << 8 | (i + k < bytes.size() ? static_cast<uint8_t>(bytes[i + k]) : 0);
    }
    for (size_t k = 0; k < 4; ++k) {
      out += i + k > bytes.size() ? '=' : kDigits[word >> (18 - 6 * k) & 63];
    }
  }
  return out;
}

// The 256 single bytes, then the given tokens.
std::string rank_file(const std::vector<std::string>& tokens) {
  std::string out;
  for (int i = 0; i < 256; ++i) {
    out += base64(std::string(1, static_cast<char>(i))) + " " + std::to_string(i) + "\n";
  }
  for (size_t i = 0; i < tokens.size(); ++i) {
    out += base64(tokens[i]) + " " + std::to_string(256 + i) + "\n";
  }
  return out;
}

std::vector<int32_t> encode(const Merges& merges, std::string_view piece) {
  std::vector<int32_t> ids;
  merges.encode(piece, ids);
  return ids;
}

// The rule as written in merges.h, by bytes and without any index.
std::vector<int32_t> naive(const Merges& merges, std::string_view piece) {
  if (merges.find(piece) >= 0) return {merges.find(piece)};
  std::vector<std::string> parts;
  for (const char c : piece) parts.emplace_back(1, c);
  for (;;) {
    int32_t best = -1;
    size_t at = 0;
    for (size_t i = 0; i + 1 < parts.size(); ++i) {
      const int32_t rank = merges.find(parts[i] + parts[i + 1]);
      if (rank >= 0 && (best < 0 || rank < best)) {
        best = rank;
        at = i;
      }
    }
    if (best < 0) break;
    parts[at] += parts[at + 1];
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  }
  std::vector<int32_t> ids;
  for (const std::string& part : parts) ids.push_back(merges.find(part));
  return ids;
}

TEST(Merges, LowestRankThenLeftmost) {
  const Merges merges =
      Merges::parse(rank_file({"bc", "ab", "aa", "abc"}), "test").value_or_throw();
  EXPECT_EQ(merges.size(), 260);
  EXPECT_EQ(encode(merges, "abc"), (std::vector<int32_t>{259}));        // whole
  EXPECT_EQ(encode(merges, "abcd"), (std::vector<int32_t>{259, 'd'}));  // bc, then a+bc
  EXPECT_EQ(encode(merges, "aaa"), (std::vector<int32_t>{258, 'a'}));   // leftmost
  EXPECT_EQ(encode(merges, "xabx"), (std::vector<int32_t>{'x', 257, 'x'}));
  EXPECT_EQ(merges.bytes(256), "bc");
}

TEST(Merges, AllLengthsEqualTheNaiveRule) {
  const Merges merges = Merges::parse(rank_file({"ab", "ba", "aa", "aba", "bb", "abab", "aab",
                                                 "bba", "aaaa", "babab", "abababababababababab"}),
                                      "test")
                            .value_or_throw();
  std::mt19937 random(7);
  for (size_t length = 1; length < 220; ++length) {
    for (int repeat = 0; repeat < 5; ++repeat) {
      std::string piece;
      for (size_t i = 0; i < length; ++i) piece += "abc"[random() % (repeat < 3 ? 2 : 3)];
      ASSERT_EQ(encode(merges, piece), naive(merges, piece)) << piece;
    }
  }
  EXPECT_EQ(merges.find("abababababababababab"), 266);  // longer than a short key
  EXPECT_EQ(merges.find("abababababababababaa"), -1);
}

TEST(Merges, AMebibyteOfOneLetterIsNotQuadratic) {
  const Merges merges = Merges::parse(rank_file({"aa", "aaaa"}), "test").value_or_throw();
  const std::string piece((1 << 20) + 1, 'a');
  const auto ids = encode(merges, piece);  // takes minutes where it is quadratic
  ASSERT_EQ(ids.size(), (1u << 18) + 1);
  EXPECT_EQ(ids.front(), 257);
  EXPECT_EQ(ids.back(), 'a');
}

void expect_broken(const std::string& file, const std::string& part) {
  const auto merges = Merges::parse(file, "ranks.txt");
  ASSERT_FALSE(merges.ok()) << part;
  EXPECT_EQ(merges.failure().code, Code::kDataLoss);
  EXPECT_NE(merges.failure().message.find(part), std::string::npos) << merges.failure().message;
}

TEST(Merges, BrokenFilesNameTheLine) {
  const std::string good = rank_file({"ab"});
  EXPECT_TRUE(Merges::parse(good, "x").ok());
  expect_broken(good + "YWI\n", "ranks.txt:258: no blank");
  expect_broken(good + "Y?I= 257\n", "ranks.txt:258: token is not base64");
  expect_broken(good + "YWI 257\n", "ranks.txt:258: token is not base64");
  expect_broken(good + "YWM= 258\n", "ranks.txt:258: rank 258 where 257 is due");
  expect_broken(good + "YWM= x\n", "ranks.txt:258: rank is not a number");
  expect_broken(good + "YWI= 257\n", "ranks 256 and 257 have the same bytes");
  expect_broken("YWI= 0\n", "no rank for the single byte 0");
  expect_broken("", "no rank for the single byte 0");
}

}  // namespace
}  // namespace espalier
