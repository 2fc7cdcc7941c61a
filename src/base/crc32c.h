// CRC-32C (Castagnoli), the checksum of journal records and snapshot chunks (RFC 3720, B.4).
#pragma once

#include <cstdint>
#include <string_view>

namespace holdfast {

// `seed` is the result for the bytes before these, 0 to begin.
std::uint32_t Crc32c(std::string_view bytes, std::uint32_t seed = 0);

}  // namespace holdfast
