// Version skew and errors, against a function table made here: no plugin needed.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "espalier/base/locate.h"
#include "espalier/pjrt/client.h"
#include "espalier/pjrt/plugin.h"
#include "espalier/pjrt/topology.h"
#include "xla/pjrt/c/pjrt_c_api.h"

namespace espalier {
namespace {

// The one error of the fake plugin.
PJRT_Error fake_error;
int errors_alive = 0;

void fake_message(PJRT_Error_Message_Args* args) {
  args->message = "out of fake memory";
  args->message_size = std::strlen(args->message);
}
PJRT_Error* fake_code(PJRT_Error_GetCode_Args* args) {
  args->code = PJRT_Error_Code_RESOURCE_EXHAUSTED;
  return nullptr;
}
void fake_destroy(PJRT_Error_Destroy_Args*) { --errors_alive; }
PJRT_Error* succeed(PJRT_Plugin_Initialize_Args*) { return nullptr; }
PJRT_Error* fail(PJRT_Plugin_Initialize_Args*) {
  ++errors_alive;
  return &fake_error;
}
PJRT_Error* fail_client(PJRT_Client_Create_Args*) {
  ++errors_alive;
  return &fake_error;
}
PJRT_Error* attributes(PJRT_Plugin_Attributes_Args* args) {
  static PJRT_NamedValue value{};
  value.name = "xla_version";
  value.name_size = std::strlen(value.name);
  value.type = PJRT_NamedValue_kInt64;
  value.int64_value = 42;
  value.value_size = 1;
  args->attributes = &value;
  args->num_attributes = 1;
  return nullptr;
}

PJRT_Api fake_api() {
  PJRT_Api api{};
  api.struct_size = PJRT_Api_STRUCT_SIZE;
  api.pjrt_api_version.major_version = PJRT_API_MAJOR;
  api.pjrt_api_version.minor_version = 7;
  api.PJRT_Error_Message = fake_message;
  api.PJRT_Error_GetCode = fake_code;
  api.PJRT_Error_Destroy = fake_destroy;
  api.PJRT_Plugin_Initialize = succeed;
  api.PJRT_Plugin_Attributes = attributes;
  api.PJRT_Client_Create = fail_client;
  return api;
}

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

TEST(PluginVersion, AnotherMajorIsRefusedNamingBoth) {
  const auto status = check_api_version({1, 3}, PJRT_Api_STRUCT_SIZE, "/x/plugin.so");
  ASSERT_FALSE(status);
  EXPECT_EQ(status.failure().code, Code::kFailedPrecondition);
  EXPECT_TRUE(contains(status.failure().message, "/x/plugin.so")) << status.failure().message;
  EXPECT_TRUE(contains(status.failure().message, " 1.3,"));
  EXPECT_TRUE(contains(status.failure().message, "this program 0."));
}

TEST(PluginVersion, MinorMayDiffer) {
  EXPECT_TRUE(check_api_version({PJRT_API_MAJOR, 1}, PJRT_Api_STRUCT_SIZE, "a"));
  EXPECT_TRUE(check_api_version({PJRT_API_MAJOR, 9999}, PJRT_Api_STRUCT_SIZE + 800, "a"));
  EXPECT_FALSE(check_api_version({PJRT_API_MAJOR, 1}, 40, "a"));
}

TEST(PluginVersion, FromApiRefusesAnotherMajorBeforeAnyCall) {
  static PJRT_Api api = fake_api();
  api.pjrt_api_version.major_version = PJRT_API_MAJOR + 1;
  api.PJRT_Plugin_Initialize = [](PJRT_Plugin_Initialize_Args*) -> PJRT_Error* { std::abort(); };
  const auto plugin = Plugin::from_api(&api, "fake");
  ASSERT_FALSE(plugin);
  EXPECT_EQ(plugin.failure().code, Code::kFailedPrecondition);
  EXPECT_FALSE(Plugin::from_api(nullptr, "fake"));
}

TEST(PluginCalls, AttributesAndFingerprint) {
  static const PJRT_Api api = fake_api();
  const auto plugin = Plugin::from_api(&api, "fake").value_or_throw();
  EXPECT_EQ(plugin->api_version().minor, 7);
  EXPECT_EQ(std::get<int64_t>(plugin->attributes().at("xla_version")), 42);
  EXPECT_TRUE(contains(plugin->fingerprint(), "xla_version=42"));
  EXPECT_EQ(plugin->extension(PJRT_Extension_Type_FFI), nullptr);
}

TEST(PluginCalls, ErrorsBecomeFailuresAndAreFreed) {
  static PJRT_Api api = fake_api();
  const auto plugin = Plugin::from_api(&api, "fake").value_or_throw();
  const auto client = Client::create(plugin);
  ASSERT_FALSE(client);
  EXPECT_EQ(client.failure().code, Code::kResourceExhausted);
  EXPECT_TRUE(contains(client.failure().message, "out of fake memory"));
  EXPECT_TRUE(contains(client.failure().message, "PJRT_Client_Create"));
  EXPECT_EQ(errors_alive, 0);

  api.PJRT_Plugin_Initialize = fail;
  const auto refused = Plugin::from_api(&api, "fake");
  ASSERT_FALSE(refused);
  EXPECT_TRUE(contains(refused.failure().message, "cannot initialize the plugin 'fake'"));
  EXPECT_EQ(errors_alive, 0);
}

TEST(PluginCalls, AFunctionBeyondTheTableIsUnimplemented) {
  static PJRT_Api api = fake_api();
  // A pointer that must not be followed: an older plugin's memory ends before it.
  api.PJRT_TopologyDescription_Create = [](PJRT_TopologyDescription_Create_Args*) -> PJRT_Error* {
    std::abort();
  };
  api.struct_size = offsetof(PJRT_Api, PJRT_TopologyDescription_Create);
  const auto plugin = Plugin::from_api(&api, "fake").value_or_throw();
  const auto beyond = Topology::create(plugin, "v5e:2x4");
  ASSERT_FALSE(beyond);
  EXPECT_EQ(beyond.failure().code, Code::kUnimplemented);
  EXPECT_TRUE(contains(beyond.failure().message, "PJRT_TopologyDescription_Create"));
  EXPECT_TRUE(contains(beyond.failure().message, "0.7")) << beyond.failure().message;

  api.PJRT_Client_Create = nullptr;  // within the table, but not set
  const auto unset = Client::create(plugin);
  ASSERT_FALSE(unset);
  EXPECT_EQ(unset.failure().code, Code::kUnimplemented);
}

TEST(PluginPath, NamesAndMessages) {
  const auto unknown = plugin_path("abacus");
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.failure().code, Code::kInvalidArgument);
  EXPECT_TRUE(contains(unknown.failure().message, "ESPALIER_PJRT_ABACUS"));

  const auto missing = plugin_path("/nowhere/plugin.so");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.failure().code, Code::kNotFound);
  EXPECT_TRUE(contains(missing.failure().message, "no plugin at '/nowhere/plugin.so'"));

  setenv("ESPALIER_PJRT_ABACUS", "/nowhere/abacus.so", 1);
  const auto set = plugin_path("abacus");
  ASSERT_FALSE(set);
  EXPECT_EQ(set.failure().code, Code::kNotFound);
  EXPECT_TRUE(contains(set.failure().message, "environment variable ESPALIER_PJRT_ABACUS"));
  setenv("ESPALIER_PJRT_ABACUS", __FILE__, 1);
  EXPECT_EQ(plugin_path("abacus").value_or_throw().string(), __FILE__);
  unsetenv("ESPALIER_PJRT_ABACUS");
}

TEST(PluginPath, AMissingPluginNamesTheCommandThatBringsItOnce) {
  for (const std::string name : {"cuda", "tpu"}) {
    const auto missing = plugin_path(name);
    if (missing) continue;  // it is here
    EXPECT_EQ(missing.failure().code, Code::kNotFound);
    const std::string& message = missing.failure().message;
    const std::string command = "./dev setup";
    EXPECT_TRUE(contains(message, command + " --" + name + " in")) << message;
    EXPECT_EQ(message.find(command), message.rfind(command)) << message;
    EXPECT_TRUE(contains(message, name == "cuda" ? "ESPALIER_PJRT_CUDA" : "ESPALIER_PJRT_TPU"));
    for (const auto& folder : resource_folders()) {
      EXPECT_TRUE(contains(message, folder.string())) << message;
    }
  }
}

TEST(NamedValueText, ForPeople) {
  EXPECT_EQ(to_string(NamedValue(int64_t{3})), "3");
  EXPECT_EQ(to_string(NamedValue("text")), "text");
  EXPECT_EQ(to_string(NamedValue(true)), "true");
  EXPECT_EQ(to_string(NamedValue(std::vector<int64_t>{1, 2})), "[1, 2]");
}

}  // namespace
}  // namespace espalier
