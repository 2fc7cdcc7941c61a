#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace holdfast {

void CheckFailed(const char* file, int line, const char* condition, const char* text) {
  std::fprintf(stderr, "fatal: %s (%s) at %s:%d\n", text, condition, file, line);
  std::fflush(stderr);
  std::abort();
}

}  // namespace holdfast
