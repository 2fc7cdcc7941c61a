// Replies of the Redis protocol, version 2 or 3, appended to a string.
#pragma once

#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>

namespace holdfast::gateway {

class RespWriter {
 public:
  // `version`: 2 or 3. Maps become flat arrays and pushes are not possible in version 2.
  RespWriter(std::string& out, int version) : out_(out), version_(version) {}

  int version() const { return version_; }

  void Simple(std::string_view text) { Line('+', text); }
  // `code`: one word in capitals. Line breaks in the message become spaces.
  void Error(std::string_view code, std::string_view message) {
    out_ += '-';
    out_ += code;
    out_ += ' ';
    for (const char c : message) {
      out_ += c == '\r' || c == '\n' ? ' ' : c;
    }
    out_ += "\r\n";
  }
  void Integer(std::int64_t value) { Number(':', value); }
  void Bulk(std::string_view bytes) {
    Number('$', static_cast<std::int64_t>(bytes.size()));
    out_ += bytes;
    out_ += "\r\n";
  }
  void Null() { out_ += version_ == 3 ? "_\r\n" : "$-1\r\n"; }
  void Array(std::size_t size) { Number('*', static_cast<std::int64_t>(size)); }
  // `size` pairs of key and value follow.
  void Map(std::size_t size) {
    if (version_ == 3) {
      Number('%', static_cast<std::int64_t>(size));
    } else {
      Array(2 * size);
    }
  }
  // What another writer of the same version wrote.
  void Raw(std::string_view bytes) { out_ += bytes; }
  // Out of band, version 3 only: `size` elements follow.
  void Push(std::size_t size) { Number('>', static_cast<std::int64_t>(size)); }

 private:
  void Line(char kind, std::string_view text) {
    out_ += kind;
    out_ += text;
    out_ += "\r\n";
  }
  void Number(char kind, std::int64_t value) {
    char digits[24];
    const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
    Line(kind, std::string_view(digits, static_cast<std::size_t>(end - digits)));
  }

  std::string& out_;
  int version_;
};

// A map whose size is known at its end only.
class RespMap {
 public:
  explicit RespMap(const RespWriter& parent) : writer_(body_, parent.version()) {}

  RespMap& Add(std::string_view key, std::string_view value) {
    Key(key).Bulk(value);
    return *this;
  }
  RespMap& Add(std::string_view key, std::int64_t value) {
    Key(key).Integer(value);
    return *this;
  }
  RespMap& AddIfAny(std::string_view key, std::string_view value) {
    return value.empty() ? *this : Add(key, value);
  }
  // The value follows, through the writer that this returns.
  RespWriter& Key(std::string_view key) {
    ++size_;
    writer_.Bulk(key);
    return writer_;
  }
  void WriteTo(RespWriter& out) const {
    out.Map(size_);
    out.Raw(body_);
  }

 private:
  std::string body_;
  RespWriter writer_;
  std::size_t size_ = 0;
};

}  // namespace holdfast::gateway
