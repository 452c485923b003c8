// The standard output of a shell command, which must end with 0.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <string>

namespace espalier::test {

inline std::string output_of(const std::string& command) {
  std::FILE* pipe = ::popen(command.c_str(), "r");
  std::string out;
  std::array<char, 4096> chunk;
  for (size_t n = 0; (n = std::fread(chunk.data(), 1, chunk.size(), pipe)) > 0;) {
    out.append(chunk.data(), n);
  }
  EXPECT_EQ(::pclose(pipe), 0) << command << "\n" << out;
  return out;
}

}  // namespace espalier::test
