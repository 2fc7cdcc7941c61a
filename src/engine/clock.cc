#include "engine/clock.h"

#include <ctime>

namespace holdfast::engine {
namespace {

Duration Read(clockid_t id) {
  timespec now{};
  clock_gettime(id, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

}  // namespace

BootTime SystemClock::Boot() {
  return BootTime(Read(CLOCK_BOOTTIME));
}

WallTime SystemClock::Wall() {
  return WallTime(Read(CLOCK_REALTIME));
}

}  // namespace holdfast::engine
