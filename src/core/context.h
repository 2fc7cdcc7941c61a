// What one batch brings to the parts while it is applied.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/time.h"
#include "core/event.h"
#include "core/grace.h"
#include "core/timers.h"

namespace holdfast::core {

struct Context {
  Timestamp now{};
  Timestamp previous{};  // state time of the batch before
  WallTime wall{};
  std::uint64_t index = 0;
  Timers& timers;
  const EpochFloors& floors;
  Applied& out;
  std::size_t due_left = 0;  // how much more may be expired, drained and forgotten in this batch
};

}  // namespace holdfast::core
