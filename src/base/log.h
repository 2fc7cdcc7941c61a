// Structured logging: one line per event, `time level text key=value ...`, to standard error.
// Levels by who must act: error = the operator now, warning = the operator should look, info = rare
// life-cycle events, debug = developers. Capabilities (lease, session and request ids) appear only
// as fingerprints. Thread-safe. core never logs.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include <fmt/core.h>

namespace holdfast::log {

enum class Level { kDebug, kInfo, kWarning, kError, kNone };

void SetLevel(Level level);
bool Enabled(Level level);
void Write(Level level, std::string_view line);

template <typename... Args>
void Debug(fmt::format_string<Args...> format, Args&&... args) {
  if (Enabled(Level::kDebug)) {
    Write(Level::kDebug, fmt::format(format, std::forward<Args>(args)...));
  }
}
template <typename... Args>
void Info(fmt::format_string<Args...> format, Args&&... args) {
  if (Enabled(Level::kInfo)) {
    Write(Level::kInfo, fmt::format(format, std::forward<Args>(args)...));
  }
}
template <typename... Args>
void Warning(fmt::format_string<Args...> format, Args&&... args) {
  if (Enabled(Level::kWarning)) {
    Write(Level::kWarning, fmt::format(format, std::forward<Args>(args)...));
  }
}
template <typename... Args>
void Error(fmt::format_string<Args...> format, Args&&... args) {
  Write(Level::kError, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace holdfast::log
