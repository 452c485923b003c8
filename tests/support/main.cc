// main() of all tests but those of tests/lint.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const int failed = RUN_ALL_TESTS();
  std::fflush(nullptr);
  // Not by return: a plugin's threads may still run while its static objects are destroyed, and
  // have ended a finished test program with an abort.
  std::_Exit(failed);
}
