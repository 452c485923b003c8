#include "espalier/base/locate.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "espalier/base/file.h"

namespace espalier {
namespace {
namespace fs = std::filesystem;

// A folder of its own, removed at the end, with ESPALIER_DEPS pointing at it.
class Locate : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) / ("locate." + std::to_string(getpid()));
    fs::create_directories(folder_ / "text");
    setenv("ESPALIER_DEPS", folder_.c_str(), 1);
  }
  void TearDown() override {
    unsetenv("ESPALIER_DEPS");
    fs::remove_all(folder_);
  }
  fs::path folder_;
};

TEST_F(Locate, TheEnvironmentComesFirst) {
  std::ofstream(folder_ / "text/gpt2.tiktoken") << "mine";
  const auto found = find_resource("text/gpt2.tiktoken");
  ASSERT_TRUE(found) << found.failure().message;
  EXPECT_EQ(*read_file(*found), "mine");
  EXPECT_EQ(resource_folders().front(), folder_);
}

TEST_F(Locate, WhatTheEnvironmentLacksIsFoundWhereItWasBuilt) {
  for (const char* name : {"text/gpt2.tiktoken", "plugins/cpu/pjrt_c_api_cpu_plugin.so"}) {
    const auto found = find_resource(name);
    ASSERT_TRUE(found) << found.failure().message;
    EXPECT_TRUE(found->is_absolute());
    EXPECT_EQ(*found, (fs::path(ESPALIER_DEPS) / name).lexically_normal());
  }
}

TEST_F(Locate, InstalledFoldersLieBesideTheProgram) {
  const fs::path above = fs::read_symlink("/proc/self/exe").parent_path().parent_path();
  const auto folders = resource_folders();
  ASSERT_EQ(folders.size(), 5u);
  EXPECT_EQ(folders[1], above / "share/espalier");
  EXPECT_EQ(folders[2], above / "lib/espalier");
}

TEST_F(Locate, AMissingFileNamesEveryFolderAndTheCure) {
  const auto found = find_resource("text/none.tiktoken");
  ASSERT_FALSE(found);
  EXPECT_EQ(found.failure().code, Code::kNotFound);
  EXPECT_NE(found.failure().message.find("./dev setup"), std::string::npos);
  for (const fs::path& folder : resource_folders()) {
    EXPECT_NE(found.failure().message.find(folder.string()), std::string::npos) << folder;
  }
}

TEST_F(Locate, AFolderIsNoResource) { EXPECT_FALSE(find_resource("text")); }

TEST_F(Locate, NamesAreRelative) {
  for (const char* name : {"", "/etc/passwd"}) {
    const auto found = find_resource(name);
    ASSERT_FALSE(found) << name;
    EXPECT_EQ(found.failure().code, Code::kInvalidArgument);
  }
}

}  // namespace
}  // namespace espalier
