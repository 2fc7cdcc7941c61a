// Chance from a seed. Each subsystem rolls dice of its own, so that what one of them does more or
// less of does not change what the others draw. Not thread-safe.
#pragma once

#include <cstdint>

#include "base/time.h"
#include "client/seeded_random.h"

namespace holdfast::sim {

class Dice : public client::SeededRandom {
 public:
  using SeededRandom::SeededRandom;
  // Dice of their own for `number`.
  Dice Split(std::uint64_t number) const {
    Dice dice(state_ ^ (number * 0xd1342543de82ef95U));
    dice.Next();
    return dice;
  }

  std::uint64_t Below(std::uint64_t bound) { return bound == 0 ? 0 : Next() % bound; }
  bool PerThousand(int share) { return static_cast<int>(Below(1000)) < share; }
  Duration UpTo(Duration most) {
    return Duration(static_cast<std::int64_t>(Below(static_cast<std::uint64_t>(most.count()) + 1)));
  }
  Duration Between(Duration low, Duration high) { return low + UpTo(high - low); }
};

}  // namespace holdfast::sim
