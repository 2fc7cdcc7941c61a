// The one place where time enters the client.
#pragma once

#include "base/time.h"

namespace holdfast::client {

class Clock {
 public:
  virtual ~Clock() = default;
  virtual BootTime Now() = 0;
};

// CLOCK_BOOTTIME: goes on while the machine is suspended. Thread-safe.
class SystemClock : public Clock {
 public:
  BootTime Now() override;
};

}  // namespace holdfast::client
