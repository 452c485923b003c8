// Ids of awkward texts equal tiktoken's for GPT-2 and Llama 3.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "espalier/base/file.h"
#include "espalier/text/tokenizer.h"

namespace espalier {
namespace {

std::filesystem::path shared_folder() {
  if (const char* folder = std::getenv("ESPALIER_SHARED")) return folder;
  return std::filesystem::path(ESPALIER_SOURCE_DIR) / ".." / "shared";
}

class TokensGolden : public testing::TestWithParam<const char*> {};

TEST_P(TokensGolden, EqualTiktokensAndDecodeBack) {
  const auto path = shared_folder() / "golden" / "tokens.json";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not there";
  const auto tokenizer = load_tokenizer(GetParam());
  if (!tokenizer && tokenizer.failure().code == Code::kNotFound) {
    GTEST_SKIP() << tokenizer.failure().message;
  }
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.failure().message;
  const auto cases = nlohmann::json::parse(read_file(path).value_or_throw());
  ASSERT_GT(cases.size(), 100u);
  for (const auto& entry : cases) {
    const auto& text = entry.at("text").get_ref<const std::string&>();
    const auto expected = entry.at(GetParam()).get<std::vector<int32_t>>();
    SCOPED_TRACE(entry.at("text").dump());
    EXPECT_EQ((*tokenizer)->encode(text), expected);
    EXPECT_EQ((*tokenizer)->decode(expected).value_or_throw(), text);
  }
}

INSTANTIATE_TEST_SUITE_P(Names, TokensGolden, testing::Values("gpt2", "llama3"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace espalier
