// HF_CHECK: the third kind of failure. A broken invariant, damage inside a synced prefix or a
// failed fsync ends the process at once, in every build type; recovery is replay. Never used on
// anything that a user can send.
#pragma once

namespace holdfast {

// Prints the text with its place to standard error and aborts.
[[noreturn]] void CheckFailed(const char* file, int line, const char* condition, const char* text);

}  // namespace holdfast

#define HF_CHECK(condition, text)                                      \
  do {                                                                 \
    if (!(condition)) {                                                \
      ::holdfast::CheckFailed(__FILE__, __LINE__, #condition, (text)); \
    }                                                                  \
  } while (false)
