// The profiler extension, against a table of functions made here: what plugins do at its edges.
#include "espalier/pjrt/profiler.h"

#include <gtest/gtest.h>

#include <cstring>

#include "espalier/pjrt/plugin.h"
#include "espalier/pjrt/proto/profile_options.pb.h"
#include "xla/pjrt/c/pjrt_c_api_profiler_extension.h"

namespace espalier {
namespace {

// An XSpace with one plane of 3 bytes and a host's name.
const std::string kSpace(
    "\x0a\x03"
    "\x12\x01"
    "x"
    "\x22\x04"
    "host",
    11);

struct Fake {
  std::string calls;
  std::string options;
  std::string data;
  bool own_buffer = true;
  bool fails = false;
  int errors_alive = 0, profilers_alive = 0;
} fake;

PLUGIN_Profiler* const kProfiler = reinterpret_cast<PLUGIN_Profiler*>(&fake);

PLUGIN_Profiler_Error* result(char call) {
  fake.calls += call;
  if (!fake.fails) return nullptr;
  ++fake.errors_alive;
  return reinterpret_cast<PLUGIN_Profiler_Error*>(&fake);
}
void error_destroy(PLUGIN_Profiler_Error_Destroy_Args*) { --fake.errors_alive; }
void error_message(PLUGIN_Profiler_Error_Message_Args* args) {
  args->message = "no counters";
  args->message_size = std::strlen(args->message);
}
PLUGIN_Profiler_Error* create(PLUGIN_Profiler_Create_Args* args) {
  fake.options.assign(args->options, args->options_size);
  args->profiler = kProfiler;
  ++fake.profilers_alive;
  return result('c');
}
PLUGIN_Profiler_Error* destroy(PLUGIN_Profiler_Destroy_Args* args) {
  EXPECT_EQ(args->profiler, kProfiler);
  --fake.profilers_alive;
  fake.calls += 'd';
  return nullptr;
}
PLUGIN_Profiler_Error* start(PLUGIN_Profiler_Start_Args*) { return result('s'); }
PLUGIN_Profiler_Error* stop(PLUGIN_Profiler_Stop_Args*) { return result('t'); }
PLUGIN_Profiler_Error* collect_data(PLUGIN_Profiler_CollectData_Args* args) {
  if (args->buffer != nullptr) {
    std::memcpy(args->buffer, fake.data.data(), fake.data.size());
  } else {
    args->buffer_size_in_bytes = fake.data.size();
    if (fake.own_buffer) args->buffer = reinterpret_cast<uint8_t*>(fake.data.data());
  }
  return result('g');
}

class ProfilerTest : public testing::Test {
 protected:
  void SetUp() override {
    fake = {};
    api_.struct_size = PJRT_Api_STRUCT_SIZE;
    api_.pjrt_api_version.major_version = PJRT_API_MAJOR;
    api_.pjrt_api_version.minor_version = 7;
    api_.PJRT_Error_Message = [](PJRT_Error_Message_Args*) {};
    api_.PJRT_Error_GetCode = [](PJRT_Error_GetCode_Args*) -> PJRT_Error* { return nullptr; };
    api_.PJRT_Error_Destroy = [](PJRT_Error_Destroy_Args*) {};
    api_.PJRT_Plugin_Initialize = [](PJRT_Plugin_Initialize_Args*) -> PJRT_Error* {
      return nullptr;
    };
    table_.struct_size = PLUGIN_Profiler_Api_STRUCT_SIZE;
    table_.error_destroy = error_destroy;
    table_.error_message = error_message;
    table_.create = create;
    table_.destroy = destroy;
    table_.start = start;
    table_.stop = stop;
    table_.collect_data = collect_data;
    extension_.base.struct_size = PJRT_Profiler_Extension_STRUCT_SIZE;
    extension_.base.type = PJRT_Extension_Type_Profiler;
    extension_.profiler_api = &table_;
    api_.extension_start = &extension_.base;
    plugin_ = Plugin::from_api(&api_, "/fake/plugin.so").value_or_throw();
  }

  Result<std::string> profile() {
    ESPALIER_ASSIGN(Profiler profiler, Profiler::create(*plugin_));
    ESPALIER_TRY(profiler.start());
    ESPALIER_TRY(profiler.stop());
    return profiler.collect();
  }

  PJRT_Api api_{};
  PLUGIN_Profiler_Api table_{};
  PJRT_Profiler_Extension extension_{};
  std::shared_ptr<Plugin> plugin_;
};

TEST_F(ProfilerTest, TakesThePluginsOwnBufferWithoutItsStrayByte) {
  fake.data = kSpace + '\0';
  EXPECT_EQ(profile().value_or_throw(), kSpace);
  EXPECT_EQ(fake.calls, "cstgd");
  EXPECT_EQ(fake.profilers_alive, 0);
  wire::ProfileOptions options;
  ASSERT_TRUE(options.ParseFromString(fake.options));
  EXPECT_EQ(options.version(), 1u);
  EXPECT_EQ(options.device_tracer_level(), 1u);
  EXPECT_TRUE(options.enable_hlo_proto());
}

TEST_F(ProfilerTest, AsksForTheSizeThenForTheData) {
  fake.data = kSpace;
  fake.own_buffer = false;
  EXPECT_EQ(profile().value_or_throw(), kSpace);
  EXPECT_EQ(fake.calls, "cstggd");
}

TEST_F(ProfilerTest, NothingRecordedIsAnEmptyMessage) {
  EXPECT_EQ(profile().value_or_throw(), "");
  fake.data = std::string(1, '\0');
  EXPECT_EQ(profile().value_or_throw(), "");
}

TEST_F(ProfilerTest, OtherBytesAreDataLoss) {
  for (const std::string& data : {kSpace.substr(0, 8), kSpace + "\x08\x01", std::string("hello")}) {
    fake.data = data;
    const auto bytes = profile();
    ASSERT_FALSE(bytes) << data;
    EXPECT_EQ(bytes.failure().code, Code::kDataLoss);
  }
}

TEST_F(ProfilerTest, ErrorsNameTheFunctionAndAreFreed) {
  auto profiler = Profiler::create(*plugin_);
  ASSERT_TRUE(profiler);
  fake.fails = true;
  const Status started = profiler->start();
  ASSERT_FALSE(started);
  EXPECT_EQ(started.failure().message, "PLUGIN_Profiler_Start: no counters");
  EXPECT_EQ(profiler->collect().failure().message, "PLUGIN_Profiler_CollectData: no counters");
  EXPECT_EQ(fake.errors_alive, 0);
}

TEST_F(ProfilerTest, APluginWithoutOneIsToldByName) {
  EXPECT_TRUE(Profiler::available(*plugin_));
  table_.struct_size = offsetof(PLUGIN_Profiler_Api, collect_data);  // an older table
  EXPECT_FALSE(Profiler::available(*plugin_));
  extension_.profiler_api = nullptr;
  EXPECT_FALSE(Profiler::available(*plugin_));
  api_.extension_start = nullptr;
  EXPECT_FALSE(Profiler::available(*plugin_));
  const auto profiler = Profiler::create(*plugin_);
  ASSERT_FALSE(profiler);
  EXPECT_EQ(profiler.failure().code, Code::kUnimplemented);
  EXPECT_NE(profiler.failure().message.find("/fake/plugin.so"), std::string::npos);
}

}  // namespace
}  // namespace espalier
