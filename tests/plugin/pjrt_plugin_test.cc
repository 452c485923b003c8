// Loading plugins and making clients.
#include "espalier/pjrt/plugin.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "espalier/base/file.h"
#include "espalier/pjrt/topology.h"
#include "tests/plugin/pjrt_test_support.h"
#include "xla/pjrt/c/pjrt_c_api.h"

namespace espalier::test {
namespace {

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

TEST_P(PluginTest, LoadsOnceAndTellsItsVersion) {
  EXPECT_EQ(plugin_->api_version().major, PJRT_API_MAJOR);
  EXPECT_GT(plugin_->api_version().minor, 100);
  const auto again = Plugin::load(plugin_->path().string()).value_or_throw();
  EXPECT_EQ(again.get(), plugin_.get());
  EXPECT_TRUE(plugin_->attributes().contains("stablehlo_current_version"));
  EXPECT_TRUE(contains(plugin_->fingerprint(), "size="));
  EXPECT_NE(plugin_->extension(PJRT_Extension_Type_FFI), nullptr);
  EXPECT_EQ(plugin_->extension(12345), nullptr);
  EXPECT_STREQ(std::getenv("TF_CPP_MIN_LOG_LEVEL"), "2");
}

TEST_P(PluginTest, ClientListsDevicesAndMemories) {
  const auto four = client(4);
  EXPECT_EQ(four->platform_name(), "cpu");
  EXPECT_EQ(four->num_global_devices(), 4u);
  ASSERT_EQ(four->devices().size(), 4u);
  EXPECT_NE(std::getenv("PJRT_NPROC"), nullptr);
  for (int id = 0; id < 4; ++id) {
    const Device* device = four->device_by_id(id).value_or_throw();
    EXPECT_EQ(device->id(), id);
    EXPECT_EQ(device->kind(), "cpu");
    ASSERT_NE(device->default_memory(), nullptr);
    EXPECT_EQ(device->memory("pinned_host").value_or_throw()->kind(), "pinned_host");
  }
  EXPECT_EQ(four->devices_of_kind("cpu").size(), 4u);
  EXPECT_TRUE(four->devices_of_kind("tpu").empty());

  const auto missing = four->device_by_id(9);
  ASSERT_FALSE(missing);
  EXPECT_TRUE(contains(missing.failure().message, "there are: 0, 1, 2, 3"));
  const auto kind = four->devices()[0].memory("moon");
  ASSERT_FALSE(kind);
  EXPECT_TRUE(contains(kind.failure().message, "pinned_host"));
}

TEST_P(PluginTest, TopologyThatThePlatformLacksIsAnError) {
  const auto topology = Topology::create(plugin_, "v5e:2x4");
  ASSERT_FALSE(topology);
  EXPECT_TRUE(contains(topology.failure().message, "v5e:2x4")) << topology.failure().message;
}

INSTANTIATE_TEST_SUITE_P(Cpu, PluginTest, testing::ValuesIn(kPluginFiles), plugin_label);

TEST(PluginLoad, ByName) {
  auto path = plugin_path("cpu");
  if (!path) GTEST_SKIP() << path.failure().message;
  const auto plugin = Plugin::load("cpu").value_or_throw();
  EXPECT_EQ(plugin->path(), std::filesystem::canonical(*path));
}

TEST(PluginLoad, MissingFile) {
  const auto plugin = Plugin::load("/nowhere/plugin.so");
  ASSERT_FALSE(plugin);
  EXPECT_EQ(plugin.failure().code, Code::kNotFound);
  EXPECT_TRUE(contains(plugin.failure().message, "'/nowhere/plugin.so'"));
}

TEST(PluginLoad, ALibraryThatIsNoPlugin) {
  Dl_info info;
  ASSERT_NE(dladdr(reinterpret_cast<void*>(&fopen), &info), 0);
  const auto plugin = Plugin::load(info.dli_fname);
  ASSERT_FALSE(plugin);
  EXPECT_EQ(plugin.failure().code, Code::kInvalidArgument);
  EXPECT_TRUE(contains(plugin.failure().message, "is not a PJRT plugin")) << info.dli_fname;
}

TEST(PluginLoad, AFileThatIsNoLibrary) {
  const auto path = std::filesystem::path(testing::TempDir()) / "espalier_text.so";
  ASSERT_TRUE(write_file(path, "text"));
  const auto plugin = Plugin::load(path.string());
  ASSERT_FALSE(plugin);
  EXPECT_TRUE(contains(plugin.failure().message, "cannot load the plugin"));
  EXPECT_TRUE(contains(plugin.failure().message, path.string()));
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace espalier::test
