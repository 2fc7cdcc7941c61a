// Durations and the two clocks that a client meets, as types that cannot be mixed. Neither has a
// now(): time comes from the library and is data everywhere else.
#pragma once

#include <chrono>
#include <cstdint>

namespace holdfast {

using Duration = std::chrono::nanoseconds;

// One machine's boot-time clock (CLOCK_BOOTTIME: goes on during suspend, never jumps). Not
// comparable between machines.
struct BootClock {
  using duration = Duration;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<BootClock>;
};
using BootTime = BootClock::time_point;

// Wall clock, nanoseconds since 1970 UTC. For display, audit and logs; never for safety.
struct WallClock {
  using duration = Duration;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<WallClock>;
};
using WallTime = WallClock::time_point;

constexpr Duration Seconds(std::int64_t seconds) {
  return std::chrono::seconds(seconds);
}
constexpr Duration Millis(std::int64_t millis) {
  return std::chrono::milliseconds(millis);
}

inline std::int64_t ToMillis(Duration duration) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(duration).count();
}

}  // namespace holdfast
