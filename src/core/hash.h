// A fixed 64-bit hash: the same in every build and on every machine, since fingerprints of requests are part of the state.
// Not cryptographic.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

namespace holdfast::core {

constexpr std::uint64_t Mix64(std::uint64_t value) {
  value ^= value >> 32U;
  value *= 0xd6e8feb86659fd93U;
  value ^= value >> 32U;
  value *= 0xd6e8feb86659fd93U;
  value ^= value >> 32U;
  return value;
}

inline std::uint64_t Hash64(std::string_view bytes, std::uint64_t seed = 0) {
  std::uint64_t hash = Mix64(seed ^ (0x9e3779b97f4a7c15U + bytes.size()));
  while (bytes.size() >= 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data(), 8);
    hash = Mix64(hash ^ word);
    bytes.remove_prefix(8);
  }
  std::uint64_t tail = 0;
  if (!bytes.empty()) {
    std::memcpy(&tail, bytes.data(), bytes.size());
  }
  return Mix64(hash ^ tail);
}

}  // namespace holdfast::core
