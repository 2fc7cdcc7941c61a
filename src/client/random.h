// Where the client gets unpredictable bits from: request ids, client ids and jitter. The real
// client draws from the CSPRNG, the simulator from its seed.
#pragma once

#include <cstdint>
#include <cstring>

#include "base/id.h"
#include "base/time.h"

namespace holdfast::client {

class RandomSource {
 public:
  virtual ~RandomSource() = default;
  virtual Id128 Draw() = 0;
};

// A duration in [low, high].
inline Duration DrawBetween(RandomSource& random, Duration low, Duration high) {
  if (high <= low) {
    return low;
  }
  const Id128 bits = random.Draw();
  std::uint64_t number = 0;
  std::memcpy(&number, bits.data(), sizeof(number));
  const auto span = static_cast<std::uint64_t>((high - low).count()) + 1;
  return low + Duration(static_cast<std::int64_t>(number % span));
}

}  // namespace holdfast::client
