#include "bench/schedule.h"

#include <chrono>

namespace holdfast::bench {

Schedule::Schedule(LoadTime begin, double rate) : begin_(begin), rate_(rate) {}

bool Schedule::Due(LoadTime now) const {
  return !open_loop() || Arrival(taken_) <= now;
}

LoadTime Schedule::Take(LoadTime now) {
  return open_loop() ? Arrival(taken_++) : now;
}

std::uint64_t Schedule::Backlog(LoadTime now) const {
  if (!open_loop() || now < begin_) {
    return 0;
  }
  const std::chrono::duration<double> passed = now - begin_;
  const auto due = static_cast<std::uint64_t>(passed.count() * rate_);
  return due > taken_ ? due - taken_ : 0;
}

LoadTime Schedule::Arrival(std::uint64_t number) const {
  const std::chrono::duration<double> offset(static_cast<double>(number) / rate_);
  return begin_ + std::chrono::duration_cast<LoadClock::duration>(offset);
}

}  // namespace holdfast::bench
