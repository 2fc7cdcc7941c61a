// The one place where time and chance enter the engine.
#pragma once

#include "base/id.h"
#include "base/time.h"

namespace holdfast::engine {

class Clock {
 public:
  virtual ~Clock() = default;
  virtual BootTime Boot() = 0;
  virtual WallTime Wall() = 0;
  // A new id, from the CSPRNG: leases and sessions are capabilities. The simulator has its own.
  virtual Id128 NewId() { return RandomId(); }
};

// CLOCK_BOOTTIME and CLOCK_REALTIME. Thread-safe.
class SystemClock : public Clock {
 public:
  BootTime Boot() override;
  WallTime Wall() override;
};

}  // namespace holdfast::engine
