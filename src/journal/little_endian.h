// Fixed-width little-endian fields, in the order of the calls. The caller provides enough bytes.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>

#include "base/id.h"

namespace holdfast::journal {

class FixedWriter {
 public:
  explicit FixedWriter(char* out) : out_(out) {}

  void U8(std::uint8_t value) { *out_++ = static_cast<char>(value); }
  void U16(std::uint16_t value) { Put(value); }
  void U32(std::uint32_t value) { Put(value); }
  void U64(std::uint64_t value) { Put(value); }
  void I64(std::int64_t value) { Put(static_cast<std::uint64_t>(value)); }
  void Id(const Id128& id) {
    std::memcpy(out_, id.data(), id.size());
    out_ += id.size();
  }

 private:
  template <typename T>
  void Put(T value) {
    for (std::size_t byte = 0; byte < sizeof(T); ++byte) {
      *out_++ = static_cast<char>(value >> (8 * byte));
    }
  }

  char* out_;
};

class FixedReader {
 public:
  explicit FixedReader(const char* in) : in_(in) {}

  std::uint8_t U8() { return Get<std::uint8_t>(); }
  std::uint16_t U16() { return Get<std::uint16_t>(); }
  std::uint32_t U32() { return Get<std::uint32_t>(); }
  std::uint64_t U64() { return Get<std::uint64_t>(); }
  std::int64_t I64() { return static_cast<std::int64_t>(U64()); }
  Id128 Id() {
    Id128 id{};
    std::memcpy(id.data(), in_, id.size());
    in_ += id.size();
    return id;
  }

 private:
  template <typename T>
  T Get() {
    std::uint64_t value = 0;
    for (std::size_t byte = 0; byte < sizeof(T); ++byte) {
      value |= std::uint64_t{static_cast<unsigned char>(*in_++)} << (8 * byte);
    }
    return static_cast<T>(value);
  }

  const char* in_;
};

}  // namespace holdfast::journal
