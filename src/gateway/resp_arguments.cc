#include "gateway/resp_arguments.h"

#include <algorithm>
#include <charconv>

namespace holdfast::gateway {
namespace {

constexpr std::uint64_t kMillisMax = std::uint64_t{30} * 365 * 24 * 3600 * 1000;

}  // namespace

bool EqualsIgnoringCase(std::string_view text, std::string_view capitals) {
  return text.size() == capitals.size() &&
         std::equal(text.begin(), text.end(), capitals.begin(), [](char c, char capital) {
           return (c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c) == capital;
         });
}

void ArgumentReader::Fail(Error error) {
  if (status_.ok()) {
    status_ = std::move(error);
  }
  next_ = rest_.size();
}

bool ArgumentReader::Take(std::string_view capitals) {
  if (AtEnd() || !EqualsIgnoringCase(rest_[next_], capitals)) {
    return false;
  }
  ++next_;
  return true;
}

std::string_view ArgumentReader::Text(const char* field) {
  if (AtEnd()) {
    Fail(InvalidArgument(field, "one argument", std::string(field) + " is missing"));
    return {};
  }
  return rest_[next_++];
}

std::uint64_t ArgumentReader::Number(const char* field) {
  const std::string_view text = Text(field);
  std::uint64_t number = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (status_.ok() && (failed != std::errc() || end != text.data() + text.size())) {
    Fail(InvalidArgument(field, "a whole number, 0 or more",
                         std::string(field) + " is not a number in range"));
  }
  return number;
}

Duration ArgumentReader::Time(const char* field) {
  return Millis(static_cast<std::int64_t>(std::min(Number(field), kMillisMax)));
}

Id128 ArgumentReader::Id(const char* field) {
  const auto id = ParseId(Text(field));
  if (status_.ok() && (!id.has_value() || IsZero(*id))) {
    Fail(InvalidArgument(field, "32 lower-case hexadecimal digits, not all 0",
                         std::string(field) + " is not an id that this service made"));
  }
  return id.value_or(Id128{});
}

void ArgumentReader::ExpectEnd() {
  if (!AtEnd()) {
    const std::string word(rest_[next_].substr(0, 32));
    Fail(InvalidArgument(word, "an option of this verb", "unknown option " + word));
  }
}

}  // namespace holdfast::gateway
