// A fixed 64-bit hash: the same in every build and on every machine, since fingerprints of requests
// are part of the state. Not cryptographic.
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

// The high and the low half of the product, folded: one multiplication mixes all bits of both.
inline std::uint64_t Fold64(std::uint64_t a, std::uint64_t b) {
  __extension__ using Wide = unsigned __int128;
  const Wide product = static_cast<Wide>(a) * b;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64U);
}

inline std::uint64_t Hash64(std::string_view bytes, std::uint64_t seed = 0) {
  std::uint64_t hash = seed ^ (0x9e3779b97f4a7c15U + bytes.size());
  while (bytes.size() >= 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data(), 8);
    hash = Fold64(hash ^ word, 0xd6e8feb86659fd93U) + 0x9e3779b97f4a7c15U;
    bytes.remove_prefix(8);
  }
  std::uint64_t tail = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    tail |= static_cast<std::uint64_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  }
  return Mix64(Fold64(hash ^ tail, 0xd6e8feb86659fd93U));
}

}  // namespace holdfast::core
