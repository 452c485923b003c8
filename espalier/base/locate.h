// Where files that come with the program lie: plugins and token ranks.
#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

#include "espalier/base/error.h"

namespace espalier {

// The folders find_resource looks in, in its order:
//   1. the environment variable ESPALIER_DEPS, where it is set and not empty
//   2. beside the running program, as installed: ../share/espalier and ../lib/espalier
//   3. ../../.deps from the running program: a build folder in a checkout
//   4. the .deps folder that the library was built with
// They need not exist. Thread-safe as long as nobody changes the environment meanwhile.
std::vector<std::filesystem::path> resource_folders();

// Absolute path of a file named relative to one of these folders, such as "text/gpt2.tiktoken" or
// "plugins/cpu/pjrt_c_api_cpu_plugin.so": the first that exists. kNotFound names every folder
// searched; an empty or absolute name is kInvalidArgument.
Result<std::filesystem::path> find_resource(std::string_view name);

}  // namespace espalier
