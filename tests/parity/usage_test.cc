// The program's command line: misspelled options and subcommands, and signals that nothing handles.
#include <gtest/gtest.h>

#include <csignal>

#include "tests/support/program.h"

namespace espalier::test {
namespace {
namespace fs = std::filesystem;

class Usage : public testing::Test {
 protected:
  void SetUp() override {
    fs::remove_all(folder_);
    ASSERT_TRUE(make_folders(folder_).ok());
  }
  void TearDown() override { fs::remove_all(folder_); }
  Ended run(const std::vector<std::string>& arguments) const {
    Child child(arguments, folder_ / "child");
    return child.wait();
  }

  fs::path folder_ = fs::temp_directory_path() / "espalier_usage_test";
};

TEST_F(Usage, NoArgumentsListTheSubcommands) {
  const Ended ended = run({});
  expect_ended(ended, 2, {"train", "generate", "prepare", "plot", "error: name one of the sub"});
  EXPECT_EQ(ended.out, "");
}

TEST_F(Usage, MisspelledOptions) {
  expect_ended(run({"train", "r.toml", "--rum", "x"}), 2,
               {"error: unknown option '--rum'; did you mean '--run'? see espalier train --help"});
  // The misspelled option is named, and not the one that is missing for it.
  expect_ended(run({"plot", "--lable=x"}), 2,
               {"unknown option '--lable'; did you mean '--label'?"});
  expect_ended(run({"--versoin"}), 2, {"unknown option '--versoin'; did you mean '--version'?"});
}

TEST_F(Usage, MisspelledSubcommands) {
  expect_ended(run({"trian"}), 2,
               {"error: unknown subcommand 'trian'; did you mean 'train'? see espalier --help"});
  expect_ended(run({"polt", "runs/a", "-o", "x.svg"}), 2, {"did you mean 'plot'?"});
}

TEST_F(Usage, ArgumentsThatAreMissingOrTooMany) {
  expect_ended(run({"plot"}), 2, {"RUN", "see espalier plot --help"});
  expect_ended(run({"train", "a.toml", "b.toml"}), 2, {"unexpected argument 'b.toml'"});
  expect_ended(run({"plot", "--smooth", "x", "runs/a"}), 2, {"--smooth"});
}

TEST_F(Usage, ASignalThatNothingHandlesSaysSo) {
  for (const auto& [number, line] :
       {std::pair(SIGINT, "interrupted\n"), std::pair(SIGTERM, "terminated\n")}) {
    // Waits for more lines, which never come. (An ignored signal would stay so in the child.)
    std::signal(number, SIG_DFL);
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    const int standard_input = ::dup(STDIN_FILENO);
    ::dup2(ends[0], STDIN_FILENO);
    const std::string name = "child" + std::to_string(number);
    Child child({"tokenize", "--tokenizer", "gpt2"}, folder_ / name);
    ::dup2(standard_input, STDIN_FILENO);
    for (const int fd : {ends[0], standard_input}) ::close(fd);
    ASSERT_EQ(::write(ends[1], "\"a\"\n", 4), 4);
    const fs::path answer = folder_ / (name + ".out");
    ASSERT_TRUE(child.wait_until([&] { return fs::exists(answer) && fs::file_size(answer) > 0; }));
    child.send(number);
    const Ended ended = child.wait();
    ::close(ends[1]);
    EXPECT_EQ(ended.status, 128 + number) << ended.signal << ended.err;
    EXPECT_EQ(ended.err, line);
  }
}

}  // namespace
}  // namespace espalier::test
