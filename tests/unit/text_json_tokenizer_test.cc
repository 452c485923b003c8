// Hugging Face's tokenizer.json: ids equal those of PyPI's tokenizers 0.23.3 for the same files,
// and those of tiktoken for files made of GPT-2's and Llama 3's ranks.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "espalier/text/byte_alphabet.h"
#include "espalier/text/tokenizer.h"
#include "tests/support/shared.h"
#include "tests/unit/data_testing.h"

namespace espalier {
namespace {

using nlohmann::json;
using Ids = std::vector<int32_t>;

const std::string kLlama3Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
    R"(\s*[\r\n]+|\s+(?!\S)|\s+)";

json byte_level(bool add_prefix_space, bool use_regex) {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", add_prefix_space},
          {"trim_offsets", true},
          {"use_regex", use_regex}};
}

json llama3_pieces() {
  const json split = {{"type", "Split"},
                      {"pattern", {{"Regex", kLlama3Pattern}}},
                      {"behavior", "Isolated"},
                      {"invert", false}};
  return {{"type", "Sequence"}, {"pretokenizers", {split, byte_level(false, false)}}};
}

json added(int id, const std::string& content, bool normalized) {
  return {{"id", id},        {"content", content},       {"single_word", false},  {"lstrip", false},
          {"rstrip", false}, {"normalized", normalized}, {"special", !normalized}};
}

// Id 0 is an added token, 1 to 256 are the bytes, then come tokens whose order is not that of the
// merges, two of them without a merge that makes them, then two more added tokens.
json small_file() {
  json vocab = {{"<s>", 0}};
  for (int b = 0; b < 256; ++b) vocab[byte_alphabet()[static_cast<size_t>(b)]] = 1 + b;
  int id = 257;
  for (const char* token : {"bc", "ab", "abc", "\u0120a", "abcd", "wh"}) vocab[token] = id++;
  const json merges = {"a b", "b c", "ab c", "\u0120 a", "a bc"};
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"added_tokens",
           {added(0, "<s>", false), added(263, " <s", true), added(264, " <s>!", true)}},
          {"normalizer", nullptr},
          {"pre_tokenizer", byte_level(false, true)},
          {"post_processor", nullptr},
          {"decoder", byte_level(true, true)},
          {"model",
           {{"type", "BPE"},
            {"dropout", nullptr},
            {"byte_fallback", false},
            {"ignore_merges", false},
            {"vocab", vocab},
            {"merges", merges}}}};
}

std::shared_ptr<const Tokenizer> tokenizer_of(const json& file) {
  return parse_tokenizer(file.dump()).value_or_throw();
}

void expect_ids(const Tokenizer& tokenizer, const std::vector<std::pair<std::string, Ids>>& cases) {
  for (const auto& [text, ids] : cases) EXPECT_EQ(tokenizer.encode(text), ids) << text;
}

TEST(TokenizerJson, IdsAndMergesAreOfTheirOwnOrder) {
  const auto tokenizer = tokenizer_of(small_file());
  expect_ids(*tokenizer, {{"abcd", {259, 101}},
                          {"abc ab", {259, 33, 258}},
                          {"a bcbc wh", {98, 33, 257, 257, 33, 120, 105}},
                          {"<s>abc<s> a", {0, 259, 0, 260}},
                          {"x <s>! y", {121, 33, 0, 34, 33, 122}},
                          {"ab <sabc", {258, 263, 259}},
                          {" a12345'S \u00e9", {260, 50, 51, 52, 53, 54, 40, 84, 33, 196, 170}}});
  EXPECT_EQ(tokenizer->vocab_size(), 265);
  EXPECT_EQ(tokenizer->special("<s>"), 0);
  EXPECT_FALSE(tokenizer->end_of_text());
  EXPECT_EQ(tokenizer->encode("<s>", false), (Ids{61, 116, 63}));
  EXPECT_EQ(tokenizer->decode(Ids{258, 263, 259, 196, 170}).value_or_throw(), "ab <sabc\u00e9");
  const auto unknown = tokenizer->decode(Ids{1, 265});
  ASSERT_FALSE(unknown.ok());
  EXPECT_NE(unknown.failure().message.find("265 at position 1"), std::string::npos);
}

TEST(TokenizerJson, PrefixSpaceStandsBeforeEachText) {
  json file = small_file();
  file["pre_tokenizer"]["add_prefix_space"] = true;
  const auto tokenizer = tokenizer_of(file);
  expect_ids(*tokenizer, {{"", {}},
                          {"abcd", {33, 259, 101}},
                          {"a bcbc wh", {260, 33, 257, 257, 33, 120, 105}},
                          {"<s>abc<s> a", {0, 33, 259, 0, 260}},
                          {"x <s>! y", {33, 121, 33, 0, 33, 34, 33, 122}},
                          {"ab <sabc", {33, 258, 263, 33, 259}}});
  // Cut in two, the second part would get a blank of its own.
  std::string text;
  while (text.size() < 300000) text += "abc abcd bc ";
  EXPECT_EQ(encode_parallel(*tokenizer, text, 4), tokenizer->encode(text));
}

TEST(TokenizerJson, IgnoreMergesTakesWholePieces) {
  json file = small_file();
  file["pre_tokenizer"] = llama3_pieces();
  file["model"]["ignore_merges"] = true;
  json pairs = json::array();
  for (const auto& merge : file["model"]["merges"]) {
    const auto text = merge.get<std::string>();
    pairs.push_back({text.substr(0, text.find(' ')), text.substr(text.find(' ') + 1)});
  }
  file["model"]["merges"] = pairs;
  expect_ids(*tokenizer_of(file),
             {{"abcd", {261}},
              {"a bcbc wh", {98, 33, 257, 257, 33, 120, 105}},
              {" a12345'S \u00e9", {260, 50, 51, 52, 53, 54, 40, 84, 33, 196, 170}}});
}

TEST(TokenizerJson, IsStoredWholeAndLoadedByPath) {
  const TemporaryFolder folder;
  const std::string text = small_file().dump(1);
  const auto loaded = load_tokenizer(folder.write("tokenizer.json", text)).value_or_throw();
  EXPECT_EQ(loaded->serialize().value_or_throw(), text);
  EXPECT_EQ(loaded->name(), (folder / "tokenizer.json").string());
}

TEST(TokenizerJson, OtherKindsAreRefusedByTheirField) {
  const struct {
    const char* pointer;
    json value;
    Code code;
    const char* part;
  } cases[] = {
      {"/model/type", "WordPiece", Code::kUnimplemented, "model.type is \"WordPiece\""},
      {"/model/type", "Unigram", Code::kUnimplemented, "model.type is \"Unigram\""},
      {"/model/byte_fallback", true, Code::kUnimplemented, "model.byte_fallback is true"},
      {"/model/dropout", 0.1, Code::kUnimplemented, "model.dropout is 0.1"},
      {"/model/end_of_word_suffix", "</w>", Code::kUnimplemented, "model.end_of_word_suffix"},
      {"/normalizer", {{"type", "NFC"}}, Code::kUnimplemented, "normalizer is \"NFC\""},
      {"/pre_tokenizer",
       {{"type", "Metaspace"}},
       Code::kUnimplemented,
       "pre_tokenizer is \"Metaspace\""},
      {"/pre_tokenizer/use_regex", false, Code::kUnimplemented, "pre_tokenizer.use_regex"},
      {"/decoder", {{"type", "WordPiece"}}, Code::kUnimplemented, "decoder is \"WordPiece\""},
      {"/added_tokens/0/lstrip", true, Code::kUnimplemented, "\"lstrip\" of \"<s>\""},
      {"/model/vocab/\u2581the", 300, Code::kUnimplemented, "token \"\u2581the\" is not spelled"},
      {"/model/merges/1", "b q", Code::kDataLoss, "model.merges[1]: 'bq' is not in model.vocab"},
      {"/model/merges/1", 7, Code::kDataLoss, "model.merges[1] is 7"},
      {"/model/vocab/abc", 257, Code::kDataLoss, "have one id, 257"},
      {"/model/vocab", 3, Code::kDataLoss, "model.vocab is no object"},
      {"/added_tokens/0/id", "x", Code::kDataLoss, "added_tokens"},
  };
  for (const auto& c : cases) {
    json file = small_file();
    file[json::json_pointer(c.pointer)] = c.value;
    const auto read = parse_tokenizer(file.dump());
    ASSERT_FALSE(read.ok()) << c.pointer;
    EXPECT_EQ(read.failure().code, c.code) << c.pointer;
    EXPECT_NE(read.failure().message.find(c.part), std::string::npos) << read.failure().message;
  }
  json file = small_file();
  file["pre_tokenizer"] = llama3_pieces();
  file["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = "\\w+";
  const auto regex = parse_tokenizer(file.dump());
  ASSERT_FALSE(regex.ok());
  EXPECT_NE(regex.failure().message.find("pre_tokenizer.pretokenizers[0].pattern is {\"Regex\""),
            std::string::npos)
      << regex.failure().message;
  file = small_file();
  file["model"]["vocab"].erase(byte_alphabet()[7]);
  const auto hole = parse_tokenizer(file.dump());
  ASSERT_FALSE(hole.ok());
  EXPECT_NE(hole.failure().message.find("single byte 7"), std::string::npos);
}

// --- files made of ranks, against tiktoken's ids ---

std::string spelled(const std::string& bytes) {
  std::string out;
  for (const char c : bytes) out += byte_alphabet()[static_cast<uint8_t>(c)];
  return out;
}

void expect_golden(const Tokenizer& tokenizer, const std::string& name) {
  const auto path = shared_file("golden/tokens.json");
  if (!path) GTEST_SKIP() << "../shared/golden/tokens.json is not there";
  for (const auto& entry : json::parse(read_file(*path).value_or_throw())) {
    const auto& text = entry.at("text").get_ref<const std::string&>();
    const auto expected = entry.at(name).get<Ids>();
    EXPECT_EQ(tokenizer.encode(text), expected) << entry.at("text").dump();
    EXPECT_EQ(tokenizer.decode(expected).value_or_throw(), text);
  }
}

using Ranks = std::map<std::string, int32_t>;

// The two parts that merging by the ranks before its own leaves of a token: the merge that made it.
std::string merge_of(const std::string& token, const Ranks& ranks) {
  const int32_t own = ranks.at(token);
  std::vector<std::string> parts;
  for (const char c : token) parts.emplace_back(1, c);
  while (parts.size() > 2) {
    std::pair<int32_t, size_t> best(own, 0);
    for (size_t i = 0; i + 1 < parts.size(); ++i) {
      const auto found = ranks.find(parts[i] + parts[i + 1]);
      if (found != ranks.end()) best = std::min(best, {found->second, i});
    }
    if (best.first == own) throw Error("no merges make '" + token + "'");
    parts[best.second] += parts[best.second + 1];
    parts.erase(parts.begin() + static_cast<ptrdiff_t>(best.second) + 1);
  }
  return spelled(parts[0]) + " " + spelled(parts[1]);
}

TEST(TokenizerJson, OfGpt2sRanksGivesTiktokensIds) {
  const auto ranked = load_tokenizer("gpt2");
  if (!ranked) GTEST_SKIP() << ranked.failure().message;
  constexpr int32_t kRanks = 50256;
  Ranks ranks;
  json vocab = {{"<|endoftext|>", kRanks}}, merges = json::array();
  for (int32_t id = 0; id < kRanks; ++id) {
    const std::string bytes = (*ranked)->decode(Ids{id}).value_or_throw();
    ranks[bytes] = id;
    vocab[spelled(bytes)] = id;
    if (bytes.size() > 1) merges.push_back(merge_of(bytes, ranks));
  }
  const json file = {{"added_tokens", {added(kRanks, "<|endoftext|>", true)}},
                     {"pre_tokenizer", byte_level(false, true)},
                     {"decoder", byte_level(true, true)},
                     {"model", {{"vocab", vocab}, {"merges", merges}}}};
  const auto tokenizer = tokenizer_of(file);
  EXPECT_EQ(tokenizer->vocab_size(), 50257);
  EXPECT_EQ(tokenizer->end_of_text(), kRanks);
  expect_golden(*tokenizer, "gpt2");
}

// As transformers convert a rank file: every way to part a token into two is a merge.
TEST(TokenizerJson, OfLlama3sRanksGivesTiktokensIds) {
  const auto ranked = load_tokenizer("llama3");
  if (!ranked) GTEST_SKIP() << ranked.failure().message;
  constexpr int32_t kRanks = 128000;
  std::vector<std::string> tokens;
  Ranks ranks;
  json vocab = json::object(), merges = json::array(), specials = json::array();
  for (int32_t id = 0; id < (*ranked)->vocab_size(); ++id) {
    const std::string bytes = (*ranked)->decode(Ids{id}).value_or_throw();
    if (id >= kRanks) {
      specials.push_back(added(id, bytes, false));
      continue;
    }
    tokens.push_back(bytes);
    ranks[bytes] = id;
    vocab[spelled(bytes)] = id;
  }
  for (const std::string& token : tokens) {
    std::map<std::pair<int32_t, int32_t>, size_t> ways;
    for (size_t cut = 1; cut < token.size(); ++cut) {
      const auto left = ranks.find(token.substr(0, cut)), right = ranks.find(token.substr(cut));
      if (left == ranks.end() || right == ranks.end()) continue;
      ways[{left->second, right->second}] = cut;
    }
    for (const auto& [order, cut] : ways) {
      merges.push_back(spelled(token.substr(0, cut)) + " " + spelled(token.substr(cut)));
    }
  }
  const json file = {
      {"added_tokens", specials},
      {"pre_tokenizer", llama3_pieces()},
      {"decoder", byte_level(true, true)},
      {"model", {{"type", "BPE"}, {"ignore_merges", true}, {"vocab", vocab}, {"merges", merges}}}};
  const auto tokenizer = tokenizer_of(file);
  EXPECT_EQ(tokenizer->vocab_size(), 128256);
  EXPECT_EQ(tokenizer->end_of_text(), 128001);
  expect_golden(*tokenizer, "llama3");
}

// Llama 3's own file under another name, as `tokenizer.model` in a folder of weights.
TEST(RankFile, OfLlama3IsKnownByItsRanks) {
  const auto by_name = load_tokenizer("llama3");
  if (!by_name) GTEST_SKIP() << by_name.failure().message;
  const std::filesystem::path file = std::filesystem::path(ESPALIER_DEPS) / "text" / "llama3.model";
  if (!std::filesystem::exists(file)) GTEST_SKIP() << file << " is not there";
  const TemporaryFolder folder;
  std::filesystem::create_symlink(file, folder / "tokenizer.model");
  const auto by_path = load_tokenizer(folder / "tokenizer.model").value_or_throw();
  EXPECT_EQ(by_path->vocab_size(), 128256);
  EXPECT_EQ(by_path->special("<|begin_of_text|>"), 128000);
  EXPECT_EQ(by_path->encode("The year is 12345.<|eot_id|>"),
            (*by_name)->encode("The year is 12345.<|eot_id|>"));
}

}  // namespace
}  // namespace espalier
