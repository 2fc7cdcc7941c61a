// 128-bit identifiers (lease ids, session ids) and their hexadecimal form. Lease ids, session ids
// and request ids are capabilities: whoever knows one may use it, so logs carry only Fingerprint().
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

namespace holdfast {

using Id128 = std::array<std::uint8_t, 16>;

inline bool IsZero(const Id128& id) {
  return id == Id128{};
}

// 32 lower-case hexadecimal digits.
std::string ToHex(const Id128& id);

// The reverse; nothing unless `text` is exactly 32 lower-case hexadecimal digits.
std::optional<Id128> ParseId(std::string_view text);

// 12 hexadecimal digits of SHA-256: enough to match rows of audit, describe and logs, useless as a
// capability.
std::string Fingerprint(std::string_view capability);
std::string Fingerprint(const Id128& id);

// SHA-256 cut to 128 bits: the chain hash of batches and the digest of snapshots.
Id128 Hash128(std::string_view bytes);

// 128 bits from the operating system's CSPRNG. Thread-safe. Not in a forked child before its exec:
// it would draw the same as its parent.
Id128 RandomId();

}  // namespace holdfast
