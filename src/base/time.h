// The third kind of time, which only the service knows; the others are in holdfast/time.h. No clock
// has a now(): time enters the program at one seam (engine/clock.h, client/clock.h) and is data
// everywhere else.
#pragma once

#include "holdfast/time.h"

namespace holdfast {

// Nanoseconds since the log began, as stamped into batches by the leader. Never runs faster than
// real time.
struct StateClock {
  using duration = Duration;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<StateClock>;
};
using Timestamp = StateClock::time_point;

}  // namespace holdfast
