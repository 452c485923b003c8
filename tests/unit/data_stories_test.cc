#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "espalier/base/error.h"
#include "espalier/base/sha256.h"
#include "espalier/data/source_text.h"
#include "espalier/data/stories.h"

namespace espalier {
namespace {

int count_words(std::string_view text) {
  std::istringstream in{std::string(text)};
  int count = 0;
  for (std::string word; in >> word;) ++count;
  return count;
}

TEST(Stories, AreTheSameOnEveryPlatform) {
  EXPECT_EQ(sha256_hex(make_stories(1000, 7)),
            "08384c379d5d9c1f2e84f1aee1d798213d292a009d4ca90fc401bbe3c5e99c4c");
}

TEST(Stories, DependOnSeedAndIndexAlone) {
  const std::string ten = make_stories(10, 3);
  EXPECT_TRUE(make_stories(20, 3).starts_with(ten));
  EXPECT_NE(make_stories(10, 4), ten);
  EXPECT_TRUE(ten.starts_with(make_story(3, 0) + "\n<|endoftext|>\n" + make_story(3, 1)));
}

TEST(Stories, AreOfTinyStoriesKind) {
  std::set<std::string, std::less<>> distinct, words;
  for (uint64_t i = 0; i < 20000; ++i) {
    const std::string story = make_story(0, i);
    EXPECT_TRUE(story.starts_with("Once upon a time, ") || story.starts_with("One day, ")) << story;
    const int length = count_words(story);
    EXPECT_GE(length, 60) << story;
    EXPECT_LE(length, 150) << story;
    EXPECT_EQ(std::count(story.begin(), story.end(), '"') % 2, 0) << story;
    // Nothing of the templates' notation is left, nor a word doubled or missing between spaces.
    EXPECT_EQ(story.find_first_of("[]{}|~<>"), std::string::npos) << story;
    EXPECT_EQ(story.find("  "), std::string::npos) << story;
    EXPECT_TRUE(std::all_of(story.begin(), story.end(),
                            [](char c) { return c == '\n' || (c >= ' ' && c <= '~'); }));
    EXPECT_NE(story.find('"'), std::string::npos) << "no dialogue: " << story;
    for (const char* wrong : {" a old", " a orange", " an big", " an red", " a apple"}) {
      EXPECT_EQ(story.find(wrong), std::string::npos) << story;
    }
    distinct.insert(story);
    std::istringstream in(story);
    for (std::string word; in >> word;) words.insert(word);
  }
  EXPECT_GT(distinct.size(), 19900U);
  EXPECT_GT(words.size(), 800U);
}

TEST(Stories, KeepTheHeroesPronoun) {
  // Every story whose hero is introduced as a girl says "she" of her right away, never "he".
  int girls = 0;
  for (uint64_t i = 0; i < 2000; ++i) {
    const std::string story = make_story(1, i);
    const size_t named = story.find(" girl named ");
    if (named == std::string::npos || story.find("had a") < story.find('.')) continue;
    ++girls;
    const size_t she = story.find(" She "), he = story.find(" He ");
    EXPECT_LT(std::min(she, story.find(" her ")), std::min(he, story.find(" his "))) << story;
  }
  EXPECT_GT(girls, 100);
}

TEST(SplitStories, TrimsAndDropsBlankOnes) {
  const std::string text = "one\n<|endoftext|>\ntwo \n<|endoftext|>\n\n<|endoftext|>\n";
  EXPECT_EQ(split_stories(text, true), (std::vector<std::string_view>{"one", "two"}));
  EXPECT_EQ(split_stories(text, false), (std::vector<std::string_view>{"one\n", "\ntwo \n"}));
  EXPECT_TRUE(has_stories(text));
  EXPECT_FALSE(has_stories("one two"));
}

}  // namespace
}  // namespace espalier
