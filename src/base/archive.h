// One description per stored struct serves both directions: `template <class A> void Archive(A& a,
// T& x) { a(x.f, x.g); }` written beside T, with A = ArchiveWriter or ArchiveReader. Vectors are
// counted; a reader refuses a count that could not fit in the bytes that are left.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "base/bytes.h"

namespace holdfast {

class ArchiveWriter {
 public:
  static constexpr bool kReading = false;
  explicit ArchiveWriter(ByteWriter& out) : out_(out) {}

  template <typename... T>
  void operator()(const T&... fields) {
    (Put(fields), ...);
  }

 private:
  template <typename T>
  void Put(const T& field) {
    if constexpr (std::is_enum_v<T>) {
      out_.PutVarint(static_cast<std::uint64_t>(field));
    } else if constexpr (std::is_integral_v<T> && std::is_signed_v<T>) {
      out_.PutSigned(field);
    } else if constexpr (std::is_integral_v<T>) {
      out_.PutVarint(static_cast<std::uint64_t>(field));
    } else {
      PutOther(field);
    }
  }
  void PutOther(const std::string& text) { out_.PutString(text); }
  template <std::size_t N>
  void PutOther(const std::array<std::uint8_t, N>& bytes) {
    out_.PutRaw(bytes.data(), N);
  }
  template <typename R, typename P>
  void PutOther(const std::chrono::duration<R, P>& duration) {
    out_.PutSigned(duration.count());
  }
  template <typename C, typename D>
  void PutOther(const std::chrono::time_point<C, D>& time) {
    out_.PutSigned(time.time_since_epoch().count());
  }
  template <typename T>
  void PutOther(const std::vector<T>& items) {
    out_.PutVarint(items.size());
    for (const T& item : items) {
      Put(item);
    }
  }
  template <typename T>
  void PutOther(const std::optional<T>& item) {
    out_.PutVarint(item.has_value() ? 1 : 0);
    if (item.has_value()) {
      Put(*item);
    }
  }
  template <typename T>
  void PutOther(const T& object) {
    // One Archive function serves both directions; with a writer it only reads.
    Archive(*this, const_cast<T&>(object));
  }

  ByteWriter& out_;
};

class ArchiveReader {
 public:
  static constexpr bool kReading = true;
  explicit ArchiveReader(ByteReader& in) : in_(in) {}

  template <typename... T>
  void operator()(T&... fields) {
    (Get(fields), ...);
  }
  bool ok() const { return in_.ok(); }
  void Fail() { in_.Fail(); }

 private:
  template <typename T>
  void Get(T& field) {
    if constexpr (std::is_same_v<T, bool>) {
      const std::uint64_t raw = in_.Varint();
      if (raw > 1) {
        in_.Fail();
      }
      field = raw == 1;
    } else if constexpr (std::is_enum_v<T>) {
      // Each enum is checked by the struct that holds it, through `EnumInRange`.
      const std::uint64_t raw = in_.Varint();
      field = static_cast<T>(raw);
      if (static_cast<std::uint64_t>(field) != raw || !EnumInRange(field)) {
        in_.Fail();
        field = T{};
      }
    } else if constexpr (std::is_integral_v<T> && std::is_signed_v<T>) {
      const std::int64_t raw = in_.Signed();
      field = static_cast<T>(raw);
      if (field != raw) {
        in_.Fail();
        field = T{};
      }
    } else if constexpr (std::is_integral_v<T>) {
      const std::uint64_t raw = in_.Varint();
      field = static_cast<T>(raw);
      if (field != raw) {
        in_.Fail();
        field = T{};
      }
    } else {
      GetOther(field);
    }
  }
  void GetOther(std::string& text) { text = std::string(in_.String()); }
  template <std::size_t N>
  void GetOther(std::array<std::uint8_t, N>& bytes) {
    in_.Raw(bytes.data(), N);
  }
  template <typename R, typename P>
  void GetOther(std::chrono::duration<R, P>& duration) {
    duration = std::chrono::duration<R, P>(static_cast<R>(in_.Signed()));
  }
  template <typename C, typename D>
  void GetOther(std::chrono::time_point<C, D>& time) {
    time = std::chrono::time_point<C, D>(D(in_.Signed()));
  }
  template <typename T>
  void GetOther(std::vector<T>& items) {
    const std::uint64_t count = in_.Varint();
    if (count > in_.remaining()) {  // every item takes at least one byte
      in_.Fail();
      return;
    }
    items.clear();
    items.reserve(static_cast<std::size_t>(
        std::min<std::uint64_t>(count, 4096)));  // a lying count costs little
    for (std::uint64_t i = 0; i < count && in_.ok(); ++i) {
      Get(items.emplace_back());
    }
  }
  template <typename T>
  void GetOther(std::optional<T>& item) {
    item.reset();
    if (in_.Varint() == 1) {
      Get(item.emplace());
    }
  }
  template <typename T>
  void GetOther(T& object) {
    Archive(*this, object);
  }

  ByteReader& in_;
};

}  // namespace holdfast
