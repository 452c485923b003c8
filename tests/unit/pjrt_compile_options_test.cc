#include "espalier/pjrt/compile_options.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <sstream>
#include <string>

#include "espalier/base/file.h"
#include "espalier/base/locate.h"
#include "espalier/pjrt/proto/compile_options.pb.h"

namespace espalier {
namespace {

wire::CompileOptionsProto parse(const CompileOptions& options) {
  wire::CompileOptionsProto proto;
  EXPECT_TRUE(proto.ParseFromString(options.serialize().value_or_throw()));
  return proto;
}

TEST(CompileOptions, DefaultsAreOneDevice) {
  const auto proto = parse({});
  const auto& build = proto.executable_build_options();
  EXPECT_EQ(build.device_ordinal(), -1);
  EXPECT_EQ(build.num_replicas(), 1);
  EXPECT_EQ(build.num_partitions(), 1);
  EXPECT_TRUE(build.use_spmd_partitioning());
  EXPECT_TRUE(build.use_shardy_partitioner());
  EXPECT_FALSE(build.has_device_assignment());
}

TEST(CompileOptions, DeviceAssignmentIsByPartitionThenReplica) {
  CompileOptions options;
  options.num_replicas = 2;
  options.num_partitions = 3;
  options.device_ids = {0, 1, 2, 10, 11, 12};
  const auto assignment = parse(options).executable_build_options().device_assignment();
  EXPECT_EQ(assignment.replica_count(), 2);
  ASSERT_EQ(assignment.computation_count(), 3);
  ASSERT_EQ(assignment.computation_devices_size(), 3);
  EXPECT_EQ(assignment.computation_devices(1).replica_device_ids(0), 1);
  EXPECT_EQ(assignment.computation_devices(1).replica_device_ids(1), 11);
}

TEST(CompileOptions, OverridesKeepTheirTypes) {
  CompileOptions options;
  options.overrides = {{"a", std::string("text")}, {"b", true}, {"c", int64_t{7}}, {"d", 0.5}};
  const auto proto = parse(options);
  ASSERT_EQ(proto.env_option_overrides_size(), 4);
  EXPECT_EQ(proto.env_option_overrides(0).value().string_field(), "text");
  EXPECT_TRUE(proto.env_option_overrides(1).value().bool_field());
  EXPECT_EQ(proto.env_option_overrides(2).value().int_field(), 7);
  EXPECT_EQ(proto.env_option_overrides(3).value().double_field(), 0.5);
}

TEST(CompileOptions, RefusesAWrongNumberOfDevices) {
  CompileOptions options;
  options.num_partitions = 4;
  options.device_ids = {0, 1};
  const auto result = options.serialize();
  ASSERT_FALSE(result);
  EXPECT_EQ(result.failure().code, Code::kInvalidArgument);
  EXPECT_NE(result.failure().message.find("need 4 device ids"), std::string::npos)
      << result.failure().message;
  options.num_partitions = 0;
  EXPECT_FALSE(options.serialize());
}

// message name -> field name -> number, of a .proto file with one level of nesting.
std::map<std::string, int> fields_of(const std::string& text, const std::string& message) {
  std::map<std::string, int> fields;
  const size_t start = text.find("message " + message + " {");
  EXPECT_NE(start, std::string::npos) << message;
  if (start == std::string::npos) return fields;
  std::istringstream lines(text.substr(start, text.find("\n}", start) - start));
  for (std::string line; std::getline(lines, line);) {
    const size_t equals = line.find(" = ");
    if (!line.starts_with("  ") || line.starts_with("   ") || line.starts_with("  //") ||
        equals == std::string::npos || !line.ends_with(';')) {
      continue;  // nested, a comment, or the end of a message
    }
    const size_t name = line.rfind(' ', equals - 1) + 1;
    fields[line.substr(name, equals - name)] = std::stoi(line.substr(equals + 3));
  }
  return fields;
}

TEST(CompileOptions, FieldNumbersAreXlas) {
  auto theirs_path = find_resource("pjrt/include/xla/pjrt/proto/compile_options.proto");
  if (!theirs_path) GTEST_SKIP() << theirs_path.failure().message;
  const std::string theirs = read_file(*theirs_path).value_or_throw();
  const std::string ours = read_file(std::filesystem::path(ESPALIER_SOURCE_DIR) /
                                     "espalier/pjrt/proto" / "compile_options.proto")
                               .value_or_throw();
  for (const char* message : {"ExecutableBuildOptionsProto", "CompileOptionsProto"}) {
    const auto expected = fields_of(theirs, message);
    const auto actual = fields_of(ours, message);
    EXPECT_GE(actual.size(), 2u) << message;
    for (const auto& [name, number] : actual) {
      ASSERT_TRUE(expected.contains(name)) << message << "." << name;
      EXPECT_EQ(number, expected.at(name)) << message << "." << name;
    }
  }
}

}  // namespace
}  // namespace espalier
