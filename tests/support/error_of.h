// What a call throws.
#pragma once

#include <functional>
#include <string>

#include "espalier/base/error.h"

namespace espalier::test {

// The message of the Error that `run` throws; "no error" where it throws none.
inline std::string error_of(const std::function<void()>& run) {
  try {
    run();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

}  // namespace espalier::test
