// ByteWriter and ByteReader: the primitive encoding of everything that Holdfast stores
// (docs/formats/encoding.md). Integers are LEB128 varints (signed ones zigzag), strings are
// length-prefixed. A reader never reads past its end and never allocates more than the bytes it
// holds; after the first malformed field it stays failed.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

namespace holdfast {

class ByteWriter {
 public:
  void PutVarint(std::uint64_t value) {
    while (value >= 0x80) {
      out_.push_back(static_cast<char>(static_cast<unsigned char>(value) | 0x80U));
      value >>= 7U;
    }
    out_.push_back(static_cast<char>(value));
  }
  void PutSigned(std::int64_t value) {
    PutVarint((static_cast<std::uint64_t>(value) << 1U) ^ static_cast<std::uint64_t>(value >> 63));
  }
  void PutString(std::string_view text) {
    PutVarint(text.size());
    out_.append(text);
  }
  void PutRaw(const void* data, std::size_t size) {
    out_.append(static_cast<const char*>(data), size);
  }

  std::size_t size() const { return out_.size(); }
  const std::string& bytes() const { return out_; }
  std::string Take() { return std::exchange(out_, {}); }
  void Clear() { out_.clear(); }

 private:
  std::string out_;
};

class ByteReader {
 public:
  // `bytes` must outlive the reader.
  explicit ByteReader(std::string_view bytes) : rest_(bytes) {}

  std::uint64_t Varint() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      if (rest_.empty()) {
        return Fail();
      }
      const auto byte = static_cast<unsigned char>(rest_.front());
      rest_.remove_prefix(1);
      if (shift == 63 && byte > 1) {
        return Fail();
      }
      value |= static_cast<std::uint64_t>(byte & 0x7fU) << shift;
      if ((byte & 0x80U) == 0) {
        return value;
      }
    }
    return Fail();
  }
  std::int64_t Signed() {
    const std::uint64_t raw = Varint();
    return static_cast<std::int64_t>(raw >> 1U) ^ -static_cast<std::int64_t>(raw & 1U);
  }
  std::string_view String() {
    const std::uint64_t size = Varint();
    if (size > rest_.size()) {
      Fail();
      return {};
    }
    const std::string_view text = rest_.substr(0, static_cast<std::size_t>(size));
    rest_.remove_prefix(static_cast<std::size_t>(size));
    return text;
  }
  void Raw(void* data, std::size_t size) {
    if (size > rest_.size()) {
      Fail();
      std::memset(data, 0, size);
      return;
    }
    std::memcpy(data, rest_.data(), size);
    rest_.remove_prefix(size);
  }
  // Marks the input as malformed; further reads give zeros.
  std::uint64_t Fail() {
    failed_ = true;
    rest_ = {};
    return 0;
  }

  bool ok() const { return !failed_; }
  bool AtEnd() const { return rest_.empty(); }
  std::size_t remaining() const { return rest_.size(); }

 private:
  std::string_view rest_;
  bool failed_ = false;
};

}  // namespace holdfast
