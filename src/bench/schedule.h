// When pairs begin. Closed loop: whenever a worker is free. Open loop: at begin + k / rate, whether
// or not one is.
#pragma once

#include <cstdint>

#include "bench/recorder.h"

namespace holdfast::bench {

class Schedule {
 public:
  // `rate` in pairs per second; 0 is the closed loop.
  Schedule(LoadTime begin, double rate);

  bool open_loop() const { return rate_ > 0; }
  // A pair may begin: closed loop always, open loop when an arrival is due.
  bool Due(LoadTime now) const;
  // Takes the pair that is due and returns the time from which its latency counts.
  LoadTime Take(LoadTime now);
  // Arrivals due and not taken. 0 in the closed loop.
  std::uint64_t Backlog(LoadTime now) const;

 private:
  LoadTime Arrival(std::uint64_t number) const;

  const LoadTime begin_;
  const double rate_;
  std::uint64_t taken_ = 0;
};

}  // namespace holdfast::bench
