// The one place where time enters the server.
#pragma once

#include "base/time.h"

namespace holdfast::engine {

class Clock {
 public:
  virtual ~Clock() = default;
  virtual BootTime Boot() = 0;
  virtual WallTime Wall() = 0;
};

// CLOCK_BOOTTIME and CLOCK_REALTIME. Thread-safe.
class SystemClock : public Clock {
 public:
  BootTime Boot() override;
  WallTime Wall() override;
};

}  // namespace holdfast::engine
