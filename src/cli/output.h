// What the program prints. A verb builds its answer once, as an Object; `-o json` prints it as one
// line of JSON, `-o text` the same fields for people. The schema of each verb: docs/CLI.md.
//
// Only one thread may print at a time.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "base/time.h"
#include "holdfast/result.h"

namespace holdfast::cli {

enum class Format { kText, kJson };

struct Field;
using Object = std::vector<Field>;  // in the order in which it is printed

// Made implicitly, so that an Object reads like what it prints.
struct Value {
  Value(bool flag);                 // NOLINT(google-explicit-constructor)
  Value(std::int32_t number);       // NOLINT(google-explicit-constructor)
  Value(std::int64_t number);       // NOLINT(google-explicit-constructor)
  Value(std::uint32_t number);      // NOLINT(google-explicit-constructor)
  Value(std::uint64_t number);      // NOLINT(google-explicit-constructor)
  Value(const char* text);          // NOLINT(google-explicit-constructor)
  Value(std::string text);          // NOLINT(google-explicit-constructor)
  Value(Object object);             // NOLINT(google-explicit-constructor)
  Value(std::vector<Object> list);  // NOLINT(google-explicit-constructor)
  Value(const Value& other);
  Value(Value&& other) noexcept;
  Value& operator=(const Value& other);
  Value& operator=(Value&& other) noexcept;
  ~Value();

  std::variant<bool, std::int64_t, std::uint64_t, std::string, Object, std::vector<Object>> data;
};

// A key that ends in `_ms` holds milliseconds; text shows it as a duration, without the suffix.
struct Field {
  std::string key;
  Value value;
};

// The answer of a verb: JSON, or one row per field and tables for lists.
void Print(Format format, const Object& answer);
// One of many: JSON, or ToLine.
void PrintLine(Format format, const Object& item);
// As it is, for what has a form of its own (reports, help).
void PrintRaw(const std::string& text);

// Text: `holdfast: message (field=..., limit=...)` on standard error, and the fields of `more` in
// lines of their own. JSON: {"error": {...}, more...} on standard output.
void PrintError(Format format, const Error& error, const Object& more = {});

std::string ToJson(const Object& object);
// The first two values, then key=value; what says nothing is left out.
std::string ToLine(const Object& object);
// "29.98s", "250ms", "1h 5m".
std::string ShowDuration(Duration duration);
// "2026-01-31T12:00:00.250Z"
std::string ShowTime(WallTime time);
// 2^53 is the end of exact numbers in many readers of JSON, so tokens are strings.
inline Value Token(std::uint64_t token) {
  return std::to_string(token);
}

// kIo names the file.
Status WriteFile(const std::string& path, const std::string& content);

}  // namespace holdfast::cli
