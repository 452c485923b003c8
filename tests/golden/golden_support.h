// What tests against ../shared/golden have in common: the files, and a CPU mesh to run functions
// on.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "espalier/base/locate.h"
#include "espalier/checkpoint/safetensors.h"
#include "espalier/runtime/program.h"

namespace espalier::test {

inline std::filesystem::path golden_path(const std::string& name) {
  const char* folder = std::getenv("ESPALIER_SHARED");
  const std::filesystem::path shared =
      folder != nullptr ? std::filesystem::path(folder)
                        : std::filesystem::path(ESPALIER_SOURCE_DIR) / ".." / "shared";
  return shared / "golden" / name;
}

// One client for each mesh for the whole test program.
inline std::shared_ptr<Runtime> cpu(const Mesh& mesh) {
  static std::vector<std::shared_ptr<Runtime>> runtimes;
  for (const auto& runtime : runtimes) {
    if (runtime->mesh() == mesh) return runtime;
  }
  RuntimeOptions options;
  options.mesh = mesh;
  runtimes.push_back(Runtime::create(options).value_or_throw());
  return runtimes.back();
}

// A compiled function with its specs; missing specs are replicated.
class Compiled {
 public:
  Compiled(const Mesh& mesh, Function function, std::vector<PartitionSpec> in = {},
           std::vector<PartitionSpec> out = {})
      : runtime_(cpu(mesh)),
        in_(std::move(in)),
        program_(make(std::move(function), std::move(out))) {}

  std::vector<HostArray> operator()(const std::vector<HostArray>& arguments) {
    std::vector<DeviceArray> arrays;
    std::vector<DeviceArray*> pointers;
    for (size_t i = 0; i < arguments.size(); ++i) {
      arrays.push_back(DeviceArray::from_host(runtime_, arguments[i], in_.at(i)).value_or_throw());
    }
    for (DeviceArray& array : arrays) pointers.push_back(&array);
    const std::vector<DeviceArray> results = program_.run(pointers).value_or_throw();
    std::vector<HostArray> out;
    for (const DeviceArray& array : results) out.push_back(array.to_host().value_or_throw());
    return out;
  }

 private:
  Program make(Function function, std::vector<PartitionSpec> out) {
    ProgramSpec spec;
    spec.name = "golden";
    in_.resize(function.params.size());
    for (size_t i = 0; i < in_.size(); ++i) {
      spec.arguments.push_back(
          {"argument " + std::to_string(i), make_layout(function.params[i].type(), in_[i])});
    }
    out.resize(function.results.size());
    spec.results = std::move(out);
    spec.function = std::move(function);
    return compile(runtime_, std::move(spec)).value_or_throw();
  }

  std::shared_ptr<Runtime> runtime_;
  std::vector<PartitionSpec> in_;
  Program program_;
};

// Opens a golden file and makes sure of the plugin; skips with the reason where one is missing.
class GoldenTest : public testing::Test {
 protected:
  void open(const std::string& name) {
    const auto path = golden_path(name);
    if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not there";
    const auto plugin = plugin_path("cpu");
    if (!plugin) GTEST_SKIP() << plugin.failure().message;
    auto file = SafetensorsFile::open(path);
    ASSERT_TRUE(file) << file.failure().message;
    file_ = std::make_unique<SafetensorsFile>(std::move(file).value());
  }
  HostArray golden(const std::string& name) const { return file_->read(name).value_or_throw(); }

  std::unique_ptr<SafetensorsFile> file_;
};

}  // namespace espalier::test
