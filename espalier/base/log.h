// Log lines for people: info to standard output, warnings and errors to standard error, through
// spdlog (an external fmt), without time stamps.
#pragma once

#include <spdlog/spdlog.h>

#include <memory>

namespace espalier {

// Loggers with the bare pattern "%v"; created on first use, thread-safe.
spdlog::logger& out();  // standard output
spdlog::logger& err();  // standard error; lines begin with "warning: " or "error: "

}  // namespace espalier
