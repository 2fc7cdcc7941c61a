#include "base/id.h"

#include <openssl/sha.h>
#include <sys/random.h>

#include "base/check.h"

namespace holdfast {
namespace {

constexpr char kHexDigits[] = "0123456789abcdef";

template <std::size_t N>
std::string HexOf(const std::array<std::uint8_t, N>& bytes, std::size_t count) {
  std::string text;
  text.reserve(2 * count);
  for (std::size_t i = 0; i < count; ++i) {
    text.push_back(kHexDigits[bytes[i] >> 4U]);
    text.push_back(kHexDigits[bytes[i] & 15U]);
  }
  return text;
}

int HexValue(char digit) {
  if (digit >= '0' && digit <= '9') {
    return digit - '0';
  }
  if (digit >= 'a' && digit <= 'f') {
    return digit - 'a' + 10;
  }
  return -1;
}

std::array<std::uint8_t, SHA256_DIGEST_LENGTH> Sha256(std::string_view bytes) {
  std::array<std::uint8_t, SHA256_DIGEST_LENGTH> digest{};
  SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), digest.data());
  return digest;
}

}  // namespace

std::string ToHex(const Id128& id) {
  return HexOf(id, id.size());
}

std::optional<Id128> ParseId(std::string_view text) {
  Id128 id{};
  if (text.size() != 2 * id.size()) {
    return std::nullopt;
  }
  for (std::size_t i = 0; i < id.size(); ++i) {
    const int high = HexValue(text[2 * i]);
    const int low = HexValue(text[2 * i + 1]);
    if (high < 0 || low < 0) {
      return std::nullopt;
    }
    id[i] = static_cast<std::uint8_t>(high * 16 + low);
  }
  return id;
}

std::string Fingerprint(std::string_view capability) {
  return HexOf(Sha256(capability), 6);
}

std::string Fingerprint(const Id128& id) {
  return Fingerprint(ToHex(id));
}

Id128 Hash128(std::string_view bytes) {
  const auto digest = Sha256(bytes);
  Id128 hash{};
  std::memcpy(hash.data(), digest.data(), hash.size());
  return hash;
}

Id128 RandomId() {
  // One system call for many ids. 256 bytes are never interrupted or short (getrandom(2)).
  thread_local std::array<std::uint8_t, 256> pool;
  thread_local std::size_t used = pool.size();
  if (used == pool.size()) {
    HF_CHECK(getrandom(pool.data(), pool.size(), 0) == static_cast<ssize_t>(pool.size()),
             "getrandom failed");
    used = 0;
  }
  Id128 id{};
  std::memcpy(id.data(), pool.data() + used, id.size());
  std::memset(pool.data() + used, 0, id.size());
  used += id.size();
  return id;
}

}  // namespace holdfast
