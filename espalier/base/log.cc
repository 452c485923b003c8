#include "espalier/base/log.h"

#include <spdlog/sinks/stdout_sinks.h>

namespace espalier {

spdlog::logger& out() {
  static const auto logger = [] {
    auto made =
        std::make_shared<spdlog::logger>("out", std::make_shared<spdlog::sinks::stdout_sink_mt>());
    made->set_pattern("%v");
    made->flush_on(spdlog::level::info);  // a pipe's reader sees each line when it is written
    return made;
  }();
  return *logger;
}

spdlog::logger& err() {
  static const auto logger = [] {
    auto made =
        std::make_shared<spdlog::logger>("err", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_pattern("%l: %v");
    made->flush_on(spdlog::level::info);
    return made;
  }();
  return *logger;
}

}  // namespace espalier
