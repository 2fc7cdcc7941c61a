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

inline std::uint64_t Load64(const char* bytes) {
  std::uint64_t word = 0;
  std::memcpy(&word, bytes, sizeof word);
  return word;
}

inline std::uint64_t Load32(const char* bytes) {
  std::uint32_t word = 0;
  std::memcpy(&word, bytes, sizeof word);
  return word;
}

// At most 8 bytes as one word. The words that it is made of may overlap: the length is hashed too.
inline std::uint64_t LoadTail(std::string_view bytes) {
  const std::size_t size = bytes.size();
  if (size >= 4) {
    return Load32(bytes.data()) | Load32(bytes.data() + size - 4) << 32U;
  }
  if (size == 0) {
    return 0;
  }
  const auto byte = [&](std::size_t at) {
    return std::uint64_t{static_cast<unsigned char>(bytes[at])};
  };
  return byte(0) | byte(size / 2) << 8U | byte(size - 1) << 16U;
}

inline std::uint64_t Hash64(std::string_view bytes, std::uint64_t seed = 0) {
  std::uint64_t hash = seed ^ (0x9e3779b97f4a7c15U + bytes.size());
  for (; bytes.size() > 8; bytes.remove_prefix(8)) {
    hash = Fold64(hash ^ Load64(bytes.data()), 0xd6e8feb86659fd93U) + 0x9e3779b97f4a7c15U;
  }
  return Mix64(Fold64(hash ^ LoadTail(bytes), 0xd6e8feb86659fd93U));
}

}  // namespace holdfast::core
