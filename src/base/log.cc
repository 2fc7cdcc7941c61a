#include "base/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

namespace holdfast::log {
namespace {

spdlog::level::level_enum Translate(Level level) {
  switch (level) {
    case Level::kDebug:
      return spdlog::level::debug;
    case Level::kInfo:
      return spdlog::level::info;
    case Level::kWarning:
      return spdlog::level::warn;
    case Level::kError:
      return spdlog::level::err;
    case Level::kNone:
      return spdlog::level::off;
  }
  return spdlog::level::err;
}

spdlog::logger& Logger() {
  static const auto logger = [] {
    auto made = spdlog::stderr_logger_mt("holdfast");
    made->set_pattern("%Y-%m-%dT%H:%M:%S.%eZ %l %v", spdlog::pattern_time_type::utc);
    return made;
  }();
  return *logger;
}

}  // namespace

void SetLevel(Level level) {
  Logger().set_level(Translate(level));
}

bool Enabled(Level level) {
  return Logger().should_log(Translate(level));
}

void Write(Level level, std::string_view line) {
  Logger().log(Translate(level), line);
}

}  // namespace holdfast::log
