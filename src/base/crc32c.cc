#include "base/crc32c.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace holdfast {
namespace {

constexpr std::array<std::uint32_t, 256> MakeTable() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) {
      value = (value & 1U) != 0 ? (value >> 1U) ^ 0x82f63b78U : value >> 1U;
    }
    table[i] = value;
  }
  return table;
}

std::uint32_t CrcPortable(std::string_view bytes, std::uint32_t crc) {
  static constexpr std::array<std::uint32_t, 256> kTable = MakeTable();
  for (const char byte : bytes) {
    crc = kTable[(crc ^ static_cast<unsigned char>(byte)) & 0xffU] ^ (crc >> 8U);
  }
  return crc;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) std::uint32_t CrcHardware(std::string_view bytes,
                                                            std::uint32_t crc) {
  std::uint64_t wide = crc;
  while (bytes.size() >= 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data(), 8);
    wide = _mm_crc32_u64(wide, word);
    bytes.remove_prefix(8);
  }
  crc = static_cast<std::uint32_t>(wide);
  for (const char byte : bytes) {
    crc = _mm_crc32_u8(crc, static_cast<unsigned char>(byte));
  }
  return crc;
}
#endif

}  // namespace

std::uint32_t Crc32c(std::string_view bytes, std::uint32_t seed) {
#if defined(__x86_64__)
  static const bool kHasCrc = __builtin_cpu_supports("sse4.2") != 0;
  if (kHasCrc) {
    return ~CrcHardware(bytes, ~seed);
  }
#endif
  return ~CrcPortable(bytes, ~seed);
}

}  // namespace holdfast
