// `espalier generate` as its user sees it: what it prints where, and what it refuses.
#include <gtest/gtest.h>
#include <pty.h>

#include "cli/text_sampler.h"
#include "espalier/text/utf8.h"
#include "tests/support/program.h"
#include "tests/support/random_model.h"
#include "tests/unit/data_testing.h"

namespace espalier::test {
namespace {

using Words = std::vector<std::string>;

TEST(WholeCharacters, AreThoseThatNoMoreBytesCanChange) {
  EXPECT_EQ(whole_characters(""), 0u);
  EXPECT_EQ(whole_characters("abc"), 3u);
  for (const std::string character : {"é", "€", "😀"}) {
    const std::string text = "ab" + character;
    for (size_t size = 3; size < text.size(); ++size) {
      EXPECT_EQ(whole_characters(text.substr(0, size)), 2u) << character << " " << size;
    }
    EXPECT_EQ(whole_characters(text), text.size());
    EXPECT_EQ(whole_characters(text + "c"), text.size() + 1);
  }
  // What is no UTF-8 is not held back for ever.
  EXPECT_EQ(whole_characters("\x80\x80\x80\x80"), 4u);
  EXPECT_EQ(whole_characters("\xff"), 1u);
  EXPECT_EQ(whole_characters("\xe2x"), 2u);
}

TEST(TextSampler, StreamsWholeCharacters) {
  RandomModelOptions options;
  options.vocab_size = 260;  // more ids than the tokenizer has
  RandomModel of(options);
  const ByteTokenizer tokenizer;
  TextSampler sampler(of.runtime, *of.model, of.layouts, of.rules, tokenizer, {.top_k = 0});
  for (const std::string prompt : {"ab", ""}) {
    for (uint64_t seed = 0; seed < 10; ++seed) {
      TextRequest request;
      request.prompt = prompt;
      request.temperature = 3;
      request.seed = seed;
      std::vector<std::string> pieces;
      const auto texts = sampler(of.pointers(), request, [&](std::string_view text) {
                           pieces.emplace_back(text);
                         }).value_or_throw();
      ASSERT_EQ(texts.size(), 1u);
      EXPECT_EQ(texts[0].substr(0, prompt.size()), prompt);
      std::string all;
      for (size_t i = 0; i < pieces.size(); ++i) {
        EXPECT_FALSE(pieces[i].empty());
        // A piece may end within a character that never became whole.
        EXPECT_TRUE(i + 1 == pieces.size() || whole_characters(pieces[i]) == pieces[i].size() ||
                    !is_utf8_continuation(pieces[i + 1][0]));
        all += pieces[i];
      }
      EXPECT_EQ(all, texts[0]);
      EXPECT_EQ(sampler(of.pointers(), request).value_or_throw(), texts);
    }
  }
}

class Generate : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::make_unique<TemporaryFolder>();
    std::string text;
    for (int i = 0; i < 300; ++i)
      text += "the quick brown foxes jump over lazy dogs " + std::to_string(i) + "\n";
    folder_->write("text.txt", text);
    folder_->write(
        "recipe.toml",
        "[model]\nmaxlen = 32\nembed_dim = 16\nnum_heads = 4\nfeed_forward_dim = 24\n"
        "num_transformer_blocks = 1\ndropout = 0.0\n[data]\nsource = \"text\"\npath = \"" +
            at("text.txt") +
            "\"\ntokenizer = \"char\"\nseq_len = 32\nbatch_size = 8\ncache_dir = \"" +
            at("tokens") +
            "\"\n[train]\nsteps = 60\nlog_every = 30\ncheckpoint_every = 60\n"
            "[sample]\nprompt = \"the \"\nevery = 0\n"
            "[logging]\nplot = false\ntensorboard = false\n");
    const Ended trained = run({"train", at("recipe.toml"), "--run", at("run")});
    ASSERT_EQ(trained.status, 0) << trained.out << trained.err;
  }
  static void TearDownTestSuite() { folder_.reset(); }

  static std::string at(const std::string& name) { return (*folder_ / name).string(); }
  static ChildOptions environment() { return {.environment = {{"ESPALIER_CACHE", at("cache")}}}; }
  static Ended run(const Words& arguments) {
    Child child(arguments, *folder_ / "child", environment());
    return child.wait();
  }
  static Words arguments(const Words& more) {
    Words all = {"generate", "--run", at("run")};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  static Ended generate(const Words& more) { return run(arguments(more)); }
  // What a text of the run must be.
  static std::string text_of(const Words& more) {
    const Ended ended = generate(more);
    EXPECT_EQ(ended.status, 0) << ended.err;
    return ended.out;
  }

  static std::unique_ptr<TemporaryFolder> folder_;
};
std::unique_ptr<TemporaryFolder> Generate::folder_;

TEST_F(Generate, TheTextGoesToStandardOutputAndItsSpeedToTheOther) {
  const Ended ended = generate({"--seed", "3"});
  EXPECT_EQ(ended.status, 0);
  EXPECT_EQ(ended.out.size(), 33u) << ended.out;  // 32 characters, prompt included, and a newline
  EXPECT_EQ(ended.out.substr(0, 4), "the ");
  EXPECT_EQ(ended.err.rfind("info: prompt: 4 tokens in ", 0), 0u) << ended.err;
  EXPECT_NE(ended.err.find("; then 27 tokens in "), std::string::npos) << ended.err;
  EXPECT_NE(ended.err.find(" tokens/s\n"), std::string::npos) << ended.err;
  EXPECT_EQ(text_of({"--seed", "3", "--stream"}), ended.out);
  EXPECT_NE(text_of({"--seed", "4"}), ended.out);
  EXPECT_EQ(text_of({"--seed", "3", "--set", "mesh.axes={model = 2}"}), ended.out);
}

TEST_F(Generate, OnATerminalTheTextIsShownAsItIsMade) {
  const std::string want = text_of({"--seed", "3"});
  const Words words = arguments({"--seed", "3"});
  std::vector<char*> argv = {const_cast<char*>(ESPALIER_PROGRAM)};
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  int terminal = -1;
  const pid_t pid = ::forkpty(&terminal, nullptr, nullptr, nullptr);
  ASSERT_GE(pid, 0);
  if (pid == 0) {
    ::setenv("ESPALIER_CACHE", at("cache").c_str(), 1);
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  std::string shown;
  char part[256];
  for (ssize_t n = 0; (n = ::read(terminal, part, sizeof part)) > 0;) {
    shown.append(part, static_cast<size_t>(n));
  }
  ::close(terminal);
  int status = 0;
  ::waitpid(pid, &status, 0);
  EXPECT_EQ(status, 0);
  std::erase(shown, '\r');  // the terminal's
  EXPECT_EQ(shown.rfind(want, 0), 0u) << shown;
  EXPECT_NE(shown.find("tokens/s"), std::string::npos) << shown;
}

TEST_F(Generate, SeveralSamplesAreThoseOfTheirSeeds) {
  std::string want;
  for (int i = 0; i < 3; ++i) {
    want += (i > 0 ? "---\n" : "") + text_of({"--seed", std::to_string(7 + i)});
  }
  EXPECT_EQ(text_of({"--seed", "7", "--num-samples", "3"}), want);
  EXPECT_EQ(text_of({"--seed", "7", "--num-samples", "3", "--batch-size", "2"}), want);
  expect_ended(generate({"--stream", "--num-samples", "3"}), 2, {"--stream", "--num-samples 3"});
}

TEST_F(Generate, DrawsAmongFewer) {
  const std::string greedy = text_of({"--temperature", "0"});
  EXPECT_EQ(text_of({"--top-p", "1e-6", "--top-k", "0", "--seed", "5"}), greedy);
  EXPECT_EQ(text_of({"--top-k", "1", "--seed", "5"}), greedy);
  // More than there are means all.
  EXPECT_EQ(text_of({"--top-k", "1000", "--temperature", "0"}), greedy);
  EXPECT_NE(text_of({"--top-p", "0.99", "--top-k", "0", "--seed", "5", "--temperature", "3"}),
            greedy);
  for (const std::string wrong : {"0", "-1", "1.01", "nan"}) {
    expect_ended(generate({"--top-p", wrong}), 2, {"--top-p"});
  }
}

TEST_F(Generate, Prompts) {
  const std::string quick = text_of({"--prompt", "quick ", "--seed", "2"});
  EXPECT_EQ(quick.substr(0, 6), "quick ");
  EXPECT_EQ(text_of({"--prompt-file", folder_->write("prompt.txt", "quick "), "--seed", "2"}),
            quick);
  expect_ended(generate({"--prompt-file", at("none.txt")}), 1, {at("none.txt")});
  expect_ended(generate({"--prompt-file", at("prompt.txt"), "--prompt", "x"}), 2,
               {"--prompt", "--prompt-file"});
  for (const Words& empty :
       {Words{"--prompt", ""}, Words{"--prompt-file", folder_->write("empty.txt", "")}}) {
    expect_ended(generate(empty), 2, {"the prompt is empty", "'char' has no end-of-text token"});
  }
}

TEST_F(Generate, Lengths) {
  const Words many = {"--seed", "1", "--max-tokens", "70"};
  const Ended cut = generate(many);
  EXPECT_EQ(cut.status, 0);
  EXPECT_EQ(cut.out.size(), 33u);
  EXPECT_NE(cut.err.find("warning: --max-tokens 70 is more than the 32 tokens"), std::string::npos)
      << cut.err;
  Words slid = many;
  slid.push_back("--slide");
  const Ended longer = generate(slid);
  EXPECT_EQ(longer.out.size(), 71u) << longer.err;
  EXPECT_EQ(longer.err.find("warning"), std::string::npos) << longer.err;
  EXPECT_EQ(longer.out.substr(0, 32), cut.out.substr(0, 32));

  const std::string prompt = "the quick brown foxes jump over lazy dogs ";
  expect_ended(generate({"--prompt", prompt}), 2,
               {"the prompt has 42 tokens", "the model takes 32", "at most 31", "--slide"});
  const std::string text = text_of({"--prompt", prompt, "--slide", "--max-tokens", "50"});
  EXPECT_EQ(text.size(), 51u);
  EXPECT_EQ(text.substr(0, 42), prompt);
  const Ended nothing = generate({"--max-tokens", "4"});
  EXPECT_EQ(nothing.out, "the \n");
  EXPECT_NE(nothing.err.find("warning: nothing is added: --max-tokens 4"), std::string::npos)
      << nothing.err;
}

TEST_F(Generate, WhatItIsToReadFrom) {
  expect_ended(run({"generate"}), 2, {"--run", "--hf"});
  expect_ended(generate({"--hf", "gpt2"}), 2, {"--run", "--hf"});
  expect_ended(generate({"--tokenizer", "gpt2"}), 2, {"--tokenizer", "--hf"});
  expect_ended(run({"generate", "--run", at("none")}), 1, {"there is no run in", at("none")});
}

}  // namespace
}  // namespace espalier::test
