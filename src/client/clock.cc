#include "client/clock.h"

#include <ctime>

#include "base/check.h"

namespace holdfast::client {

BootTime SystemClock::Now() {
  timespec now{};
  HF_CHECK(clock_gettime(CLOCK_BOOTTIME, &now) == 0, "no boot clock");
  return BootTime(std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec));
}

}  // namespace holdfast::client
