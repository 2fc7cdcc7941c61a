// A source of bits from a seed, for tests and the simulator: equal seeds give equal bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/id.h"
#include "base/time.h"
#include "client/random.h"

namespace holdfast::client {

class SeededRandom : public RandomSource {
 public:
  explicit SeededRandom(std::uint64_t seed) : state_(seed) {}
  Id128 Draw() override {
    Id128 id{};
    for (std::size_t i = 0; i < id.size(); i += 8) {
      const std::uint64_t bits = Next();
      std::memcpy(id.data() + i, &bits, sizeof(bits));
    }
    return id;
  }
  // splitmix64
  std::uint64_t Next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15U);
    z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27U)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31U);
  }
  bool OneIn(std::uint64_t n) { return Next() % n == 0; }
  Duration Between(Duration low, Duration high) { return DrawBetween(*this, low, high); }

 protected:
  std::uint64_t state_;
};

}  // namespace holdfast::client
