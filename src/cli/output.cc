#include "cli/output.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <ctime>
#include <string_view>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/overloaded.h"

namespace holdfast::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kMillis = "_ms";

// Objects are three deep at most: answer, holder, metadata.
Json JsonOf(const Object& object);  // NOLINT(misc-no-recursion)

Json JsonOf(const Value& value) {  // NOLINT(misc-no-recursion)
  return std::visit(Overloaded{
                        [](const Object& object) { return JsonOf(object); },
                        [](const std::vector<Object>& list) {
                          Json array = Json::array();
                          for (const Object& item : list) {
                            array.push_back(JsonOf(item));
                          }
                          return array;
                        },
                        [](const auto& scalar) { return Json(scalar); },
                    },
                    value.data);
}

Json JsonOf(const Object& object) {  // NOLINT(misc-no-recursion)
  Json json = Json::object();
  for (const Field& field : object) {
    json[field.key] = JsonOf(field.value);
  }
  return json;
}

// Text that others wrote must not move the cursor of a terminal or begin a line.
std::string Printable(std::string_view text) {
  std::string clean;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) {
      clean += fmt::format("\\x{:02x}", byte);
    } else {
      clean += c;
    }
  }
  return clean;
}

bool IsMillis(const Field& field) {
  return field.key.size() > kMillis.size() && field.key.ends_with(kMillis) &&
         (std::holds_alternative<std::int64_t>(field.value.data) ||
          std::holds_alternative<std::uint64_t>(field.value.data));
}

std::string Label(const Field& field) {
  return IsMillis(field) ? field.key.substr(0, field.key.size() - kMillis.size()) : field.key;
}

std::string LineOf(const Object& object);  // NOLINT(misc-no-recursion)

std::string TextOf(const Field& field) {  // NOLINT(misc-no-recursion)
  const bool millis = IsMillis(field);
  return std::visit(Overloaded{
                        [](bool flag) -> std::string { return flag ? "yes" : "no"; },
                        [&](std::int64_t number) {
                          return millis ? ShowDuration(Millis(number)) : std::to_string(number);
                        },
                        [&](std::uint64_t number) {
                          return millis ? ShowDuration(Millis(static_cast<std::int64_t>(number)))
                                        : std::to_string(number);
                        },
                        [](const std::string& text) { return Printable(text); },
                        [](const Object& object) { return LineOf(object); },
                        [](const std::vector<Object>& list) { return std::to_string(list.size()); },
                    },
                    field.value.data);
}

// Flags that say no and texts that say nothing are not worth a place.
bool IsIdle(const Field& field) {
  const bool* flag = std::get_if<bool>(&field.value.data);
  const std::string* text = std::get_if<std::string>(&field.value.data);
  const Object* object = std::get_if<Object>(&field.value.data);
  return (flag != nullptr && !*flag) || (text != nullptr && text->empty()) ||
         (object != nullptr && object->empty());
}

std::string LineOf(const Object& object) {  // NOLINT(misc-no-recursion)
  std::string line;
  for (const Field& field : object) {
    if (!IsIdle(field)) {
      line += fmt::format("{}{}={}", line.empty() ? "" : " ", Label(field), TextOf(field));
    }
  }
  return line;
}

// Bytes that start a character: good enough as the width of a column.
std::size_t Width(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0U) != 0x80U;
  }));
}

std::string Padded(const std::string& text, std::size_t width) {
  return text + std::string(width - std::min(width, Width(text)), ' ');
}

std::string TableOf(const std::vector<Object>& list) {
  std::vector<std::vector<std::string>> rows(1);
  for (const Object& item : list) {
    std::vector<std::string> row(rows.front().size());
    for (const Field& field : item) {
      auto& labels = rows.front();
      const auto found = std::find(labels.begin(), labels.end(), Label(field));
      const auto column = static_cast<std::size_t>(found - labels.begin());
      if (found == labels.end()) {
        labels.push_back(Label(field));
        row.emplace_back();
      }
      row[column] = TextOf(field);
    }
    rows.push_back(std::move(row));
  }
  std::vector<std::size_t> widths(rows.front().size());
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], Width(row[i]));
    }
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line = "  ";
    for (std::size_t i = 0; i < row.size(); ++i) {
      line += Padded(row[i], widths[i]) + "  ";
    }
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

std::string RowsOf(const Object& object, const std::string& indent) {  // NOLINT(misc-no-recursion)
  std::size_t width = 0;
  for (const Field& field : object) {
    width = std::max(width, Label(field).size());
  }
  std::string text;
  for (const Field& field : object) {
    if (const auto* list = std::get_if<std::vector<Object>>(&field.value.data)) {
      text += indent + Label(field) + (list->empty() ? ": none\n" : ":\n" + TableOf(*list));
    } else if (const auto* inner = std::get_if<Object>(&field.value.data)) {
      text += inner->empty() ? "" : indent + Label(field) + ":\n" + RowsOf(*inner, indent + "  ");
    } else if (const auto* words = std::get_if<std::string>(&field.value.data);
               words == nullptr || !words->empty()) {
      text += indent + Padded(Label(field), width) + "  " + TextOf(field) + "\n";
    }
  }
  return text;
}

}  // namespace

Value::Value(bool flag) : data(flag) {}
Value::Value(std::int32_t number) : data(std::int64_t{number}) {}
Value::Value(std::int64_t number) : data(number) {}
Value::Value(std::uint32_t number) : data(std::uint64_t{number}) {}
Value::Value(std::uint64_t number) : data(number) {}
Value::Value(const char* text) : data(std::string(text)) {}
Value::Value(std::string text) : data(std::move(text)) {}
Value::Value(Object object) : data(std::move(object)) {}
Value::Value(std::vector<Object> list) : data(std::move(list)) {}
Value::Value(const Value& other) = default;
Value::Value(Value&& other) noexcept = default;
Value& Value::operator=(const Value& other) = default;
Value& Value::operator=(Value&& other) noexcept = default;
Value::~Value() = default;

std::string ToJson(const Object& object) {
  return JsonOf(object).dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string ToLine(const Object& object) {
  const auto named = std::min<std::size_t>(2, object.size());
  std::string line;
  for (std::size_t i = 0; i < named; ++i) {
    const std::string text = TextOf(object[i]);
    line += text.empty() ? "" : text + "  ";
  }
  line += LineOf(Object(object.begin() + static_cast<std::ptrdiff_t>(named), object.end()));
  return line.substr(0, line.find_last_not_of(' ') + 1);
}

std::string ShowDuration(Duration duration) {
  const std::int64_t millis = ToMillis(duration);
  if (millis < 1000) {
    return fmt::format("{}ms", millis);
  }
  if (millis < 60'000) {
    std::string seconds = fmt::format("{}.{:03}", millis / 1000, millis % 1000);
    seconds.erase(seconds.find_last_not_of('0') + 1);
    if (seconds.back() == '.') {
      seconds.pop_back();
    }
    return seconds + "s";
  }
  const std::int64_t seconds = millis / 1000;
  if (seconds < 3600) {
    return fmt::format("{}m {}s", seconds / 60, seconds % 60);
  }
  return fmt::format("{}h {}m", seconds / 3600, seconds / 60 % 60);
}

std::string ShowTime(WallTime time) {
  const std::int64_t millis = ToMillis(time.time_since_epoch());
  const std::time_t seconds = millis / 1000;
  std::tm parts{};
  if (gmtime_r(&seconds, &parts) == nullptr) {
    return "";
  }
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", parts.tm_year + 1900,
                     parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec,
                     millis % 1000);
}

void PrintRaw(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

void Print(Format format, const Object& answer) {
  PrintRaw(format == Format::kJson ? ToJson(answer) + "\n" : RowsOf(answer, ""));
}

void PrintLine(Format format, const Object& item) {
  PrintRaw((format == Format::kJson ? ToJson(item) : ToLine(item)) + "\n");
}

void PrintError(Format format, const Error& error, const Object& more) {
  if (format == Format::kJson) {
    Object answer = {{"error", Object{{"code", ErrorCodeName(error.code)},
                                      {"message", error.message},
                                      {"field", error.field},
                                      {"limit", error.limit}}}};
    answer.insert(answer.end(), more.begin(), more.end());
    Print(format, answer);
    return;
  }
  std::string text = "holdfast: " + Printable(error.message);
  if (!error.field.empty()) {
    text += fmt::format(" (field={}, limit={})", Printable(error.field), Printable(error.limit));
  }
  text += "\n" + RowsOf(more, "");
  std::fwrite(text.data(), 1, text.size(), stderr);
}

Status WriteFile(const std::string& path, const std::string& content) {
  std::FILE* file = std::fopen(path.c_str(), "we");
  bool written =
      file != nullptr && std::fwrite(content.data(), 1, content.size(), file) == content.size();
  written = (file == nullptr || std::fclose(file) == 0) && written;
  if (!written) {
    return Error{ErrorCode::kIo,
                 fmt::format("cannot write {}: {}", path, std::generic_category().message(errno)),
                 "", ""};
  }
  return {};
}

}  // namespace holdfast::cli
