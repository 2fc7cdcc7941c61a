// Chance from a seed. Each subsystem rolls dice of its own, so that what one of them does more or
// less of does not change what the others draw. Not thread-safe.
#pragma once

#include <cstdint>
#include <cstring>

#include "base/id.h"
#include "base/time.h"
#include "client/random.h"

namespace holdfast::sim {

class Dice : public client::RandomSource {
 public:
  explicit Dice(std::uint64_t seed) : state_(seed) {}
  // Dice of their own for `number`.
  Dice Split(std::uint64_t number) const {
    Dice dice(state_ ^ (number * 0xd1342543de82ef95U));
    dice.Next();
    return dice;
  }

  // splitmix64
  std::uint64_t Next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15U);
    z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27U)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31U);
  }
  std::uint64_t Below(std::uint64_t bound) { return bound == 0 ? 0 : Next() % bound; }
  bool OneIn(std::uint64_t n) { return Below(n) == 0; }
  bool PerThousand(int share) { return static_cast<int>(Below(1000)) < share; }
  Duration UpTo(Duration most) {
    return Duration(static_cast<std::int64_t>(Below(static_cast<std::uint64_t>(most.count()) + 1)));
  }
  Duration Between(Duration low, Duration high) { return low + UpTo(high - low); }

  Id128 Draw() override {
    Id128 id{};
    for (std::size_t i = 0; i < id.size(); i += 8) {
      const std::uint64_t bits = Next();
      std::memcpy(id.data() + i, &bits, sizeof(bits));
    }
    return id;
  }

 private:
  std::uint64_t state_;
};

}  // namespace holdfast::sim
