#include "espalier/text/tokenizer.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "espalier/base/file.h"

namespace espalier {
namespace {

using Ids = std::vector<int32_t>;

#define LOAD_OR_SKIP(variable, name)                                                    \
  const auto variable##_result = load_tokenizer(name);                                  \
  if (!variable##_result.ok() && variable##_result.failure().code == Code::kNotFound) { \
    GTEST_SKIP() << variable##_result.failure().message;                                \
  }                                                                                     \
  ASSERT_TRUE(variable##_result.ok()) << variable##_result.failure().message;           \
  const Tokenizer& variable = **variable##_result

template <class F>
std::string message_of(F f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing thrown";
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(Utf8, NamesTheFirstBadByte) {
  EXPECT_TRUE(validate_utf8("").ok());
  EXPECT_TRUE(validate_utf8("plain text, é, 中, 😀, \U0010ffff").ok());
  EXPECT_TRUE(validate_utf8(std::string_view("\0a", 2)).ok());
  const std::pair<const char*, const char*> cases[] = {
      {"long enough prefix \xff", "offset 19"},
      {"ab\x80", "offset 2"},             // continuation without a start
      {"\xc0\xaf", "offset 0"},           // overlong
      {"a\xe0\x80\x80", "offset 1"},      // overlong
      {"a\xed\xa0\x80", "offset 1"},      // surrogate
      {"a\xf4\x90\x80\x80", "offset 1"},  // above U+10FFFF
      {"a\xe4\xb8", "offset 1"},          // cut off
      {"abcdefgh\xf0\x9f\x98", "offset 8"},
  };
  for (const auto& [text, offset] : cases) {
    const Status status = validate_utf8(text);
    ASSERT_FALSE(status.ok()) << offset;
    EXPECT_TRUE(contains(status.failure().message, offset)) << status.failure().message;
  }
}

TEST(CharTokenizer, SortedCodePoints) {
  const auto tokenizer = char_tokenizer("hé llo中é\n");
  EXPECT_EQ(tokenizer->name(), "char");
  EXPECT_EQ(tokenizer->vocab_size(), 7);  // \n, blank, h, l, o, é, 中
  EXPECT_EQ(tokenizer->encode("\n hloé中"), (Ids{0, 1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(tokenizer->decode(Ids{6, 5, 0}).value_or_throw(), "中é\n");
  EXPECT_FALSE(tokenizer->end_of_text());
  EXPECT_FALSE(tokenizer->special("<|endoftext|>"));
  const std::string unknown = message_of([&] { tokenizer->encode("hé?"); });
  EXPECT_TRUE(contains(unknown, "'?' at byte offset 3")) << unknown;
  EXPECT_TRUE(contains(message_of([] { char_tokenizer("ab\xff"); }), "offset 2"));
  const auto bad = tokenizer->decode(Ids{0, 7});
  ASSERT_FALSE(bad.ok());
  EXPECT_TRUE(contains(bad.failure().message, "id 7 at position 1")) << bad.failure().message;
}

TEST(CharTokenizer, StoredAndReadBack) {
  const std::string alphabet("\0\"\\\n az\u00e9\U0001f600", 14);
  ASSERT_TRUE(validate_utf8(alphabet).ok());
  const auto tokenizer = char_tokenizer(alphabet);
  const std::string stored = tokenizer->serialize().value_or_throw();
  const auto again = parse_tokenizer(stored).value_or_throw();
  EXPECT_EQ(again->vocab_size(), tokenizer->vocab_size());
  EXPECT_EQ(again->encode(alphabet), tokenizer->encode(alphabet));

  const auto path = std::filesystem::temp_directory_path() /
                    ("espalier_text_test_" + std::to_string(::getpid()) + ".json");
  write_file(path, stored).value_or_throw();
  const auto loaded = load_tokenizer(path.string());
  std::filesystem::remove(path);
  ASSERT_TRUE(loaded.ok()) << loaded.failure().message;
  EXPECT_EQ((*loaded)->encode(alphabet), tokenizer->encode(alphabet));
}

TEST(CharTokenizer, BrokenFilesAreRefused) {
  for (const char* text :
       {"{", "{}", R"({"kind": "char"})", R"({"kind": "bpe", "alphabet": "ab"})",
        R"({"kind": "char", "alphabet": "ba"})", R"({"kind": "char", "alphabet": "aa"})", "  \n"}) {
    const auto tokenizer = parse_tokenizer(text);
    ASSERT_FALSE(tokenizer.ok()) << text;
    EXPECT_EQ(tokenizer.failure().code, Code::kDataLoss);
  }
}

TEST(LoadTokenizer, SaysWhatToDo) {
  const auto missing = load_tokenizer("no/such/file");
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.failure().code, Code::kNotFound);
  EXPECT_TRUE(contains(missing.failure().message, "no/such/file"));
  const auto by_name = load_tokenizer("char");
  ASSERT_FALSE(by_name.ok());
  EXPECT_EQ(by_name.failure().code, Code::kInvalidArgument);
}

TEST(Gpt2, KnownIdsAndSpecials) {
  LOAD_OR_SKIP(gpt2, "gpt2");
  EXPECT_EQ(gpt2.vocab_size(), 50257);
  EXPECT_EQ(gpt2.end_of_text(), 50256);
  EXPECT_EQ(gpt2.special("<|endoftext|>"), 50256);
  EXPECT_FALSE(gpt2.special("<|eot_id|>"));
  EXPECT_EQ(gpt2.encode("Hello, world!"), (Ids{15496, 11, 995, 0}));
  EXPECT_EQ(gpt2.encode("<|<|endoftext|>|>"), (Ids{27, 91, 50256, 91, 29}));
  const Ids ordinary = gpt2.encode("<|endoftext|>", /*allow_special=*/false);
  EXPECT_GT(ordinary.size(), 1u);
  EXPECT_EQ(gpt2.decode(ordinary).value_or_throw(), "<|endoftext|>");
  // A special token ends the text before it, so both line ends are one piece.
  EXPECT_EQ(gpt2.encode("a\n\n<|endoftext|>b"), (Ids{64, 628, 50256, 65}));
  EXPECT_EQ(gpt2.serialize().value_or_throw(), "gpt2");
  EXPECT_EQ(parse_tokenizer("gpt2\n").value_or_throw()->vocab_size(), 50257);
}

TEST(Gpt2, BadInputIsNamed) {
  LOAD_OR_SKIP(gpt2, "gpt2");
  EXPECT_TRUE(contains(message_of([&] { gpt2.encode("abc\xff"); }), "offset 3"));
  for (const int32_t id : {-1, 50257}) {
    const auto decoded = gpt2.decode(Ids{1, 2, id});
    ASSERT_FALSE(decoded.ok());
    EXPECT_EQ(decoded.failure().code, Code::kInvalidArgument);
    EXPECT_TRUE(contains(decoded.failure().message, std::to_string(id) + " at position 2"));
  }
}

TEST(Llama3, KnownIdsAndSpecials) {
  LOAD_OR_SKIP(llama3, "llama3");
  EXPECT_EQ(llama3.vocab_size(), 128256);
  EXPECT_EQ(llama3.end_of_text(), 128001);
  EXPECT_EQ(llama3.special("<|begin_of_text|>"), 128000);
  EXPECT_EQ(llama3.special("<|eot_id|>"), 128009);
  EXPECT_EQ(llama3.special("<|reserved_special_token_2|>"), 128012);
  EXPECT_EQ(llama3.special("<|reserved_special_token_245|>"), 128255);
  EXPECT_EQ(llama3.encode("<|begin_of_text|>hi<|eot_id|>"), (Ids{128000, 6151, 128009}));
  EXPECT_EQ(llama3.decode(Ids{128012}).value_or_throw(), "<|reserved_special_token_2|>");
}

// A run's folder holds the whole vocabulary of a tokenizer that was given by its path.
TEST(RankFileByPath, IsStoredWhole) {
  std::string ranks;
  constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (int i = 0; i < 256; ++i) {
    ranks += {kDigits[i >> 2], kDigits[(i & 3) << 4], '=', '='};
    ranks += " " + std::to_string(i) + "\n";
  }
  ranks += "YWI= 256\n";  // ab
  const auto path = std::filesystem::temp_directory_path() /
                    ("espalier_text_test_" + std::to_string(::getpid()) + ".ranks");
  write_file(path, ranks).value_or_throw();
  const auto loaded = load_tokenizer(path.string());
  std::filesystem::remove(path);
  ASSERT_TRUE(loaded.ok()) << loaded.failure().message;
  EXPECT_EQ((*loaded)->name(), path.string());
  EXPECT_EQ((*loaded)->vocab_size(), 258);
  const auto stored = parse_tokenizer((*loaded)->serialize().value_or_throw()).value_or_throw();
  EXPECT_EQ(stored->encode("abc<|endoftext|>"), (Ids{256, 'c', 257}));
}

TEST(EncodeParallel, EqualsOneThread) {
  std::string text;
  for (int i = 0; text.size() < 900 * 1024; ++i) {
    text += "Chapter " + std::to_string(i * 7919) + ":\n\n  It's  the\t中文 é 😀... \r\n";
    if (i % 50 == 0) text += "<|endoftext|>";
  }
  const auto check = [&](const Tokenizer& tokenizer) {
    for (const bool allow_special : {true, false}) {
      const Ids expected = tokenizer.encode(text, allow_special);
      for (const int threads : {0, 1, 2, 3, 7}) {
        EXPECT_EQ(encode_parallel(tokenizer, text, threads, allow_special), expected) << threads;
      }
    }
  };
  check(*char_tokenizer(text));
  LOAD_OR_SKIP(gpt2, "gpt2");
  check(gpt2);
  LOAD_OR_SKIP(llama3, "llama3");
  check(llama3);
}

TEST(EncodeParallel, TextWithoutCuts) {
  LOAD_OR_SKIP(gpt2, "gpt2");
  for (const std::string unit : {"ab", " ", "中"}) {
    std::string text;
    while (text.size() < 300 * 1024) text += unit;
    EXPECT_EQ(encode_parallel(gpt2, text, 4), gpt2.encode(text)) << unit;
  }
  EXPECT_TRUE(encode_parallel(gpt2, "", 4).empty());
}

TEST(EncodeParallel, ErrorsCountFromTheWholeTextsStart) {
  const auto tokenizer = char_tokenizer("ab");
  std::string text(500 * 1024, 'a');
  text[400'000] = 'x';
  EXPECT_TRUE(contains(message_of([&] { encode_parallel(*tokenizer, text, 4); }), "offset 400000"));
  text[400'000] = '\xff';
  EXPECT_TRUE(contains(message_of([&] { encode_parallel(*tokenizer, text, 4); }), "offset 400000"));
}

}  // namespace
}  // namespace espalier
