#include "server/config_values.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <numeric>
#include <vector>

namespace holdfast::server {
namespace {

struct Unit {
  std::string_view name;
  std::uint64_t factor;
};
// Largest first: formatting takes the first that divides.
constexpr std::array<Unit, 6> kDurationUnits{{{"h", 3'600'000'000'000},
                                              {"m", 60'000'000'000},
                                              {"s", 1'000'000'000},
                                              {"ms", 1'000'000},
                                              {"us", 1'000},
                                              {"ns", 1}}};
constexpr std::array<Unit, 4> kByteUnits{
    {{"GiB", std::uint64_t{1} << 30U}, {"MiB", std::uint64_t{1} << 20U}, {"KiB", 1024}, {"", 1}}};

template <std::size_t N>
std::optional<std::uint64_t> Parse(std::string_view text, const std::array<Unit, N>& units) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) {
    return std::nullopt;
  }
  const std::string_view suffix = text.substr(static_cast<std::size_t>(end - text.data()));
  if (suffix.empty() && number == 0) {
    return 0;
  }
  for (const Unit& unit : units) {
    if (suffix == unit.name && number <= static_cast<std::uint64_t>(INT64_MAX) / unit.factor) {
      return number * unit.factor;
    }
  }
  return std::nullopt;
}

template <std::size_t N>
std::string Format(std::uint64_t value, const std::array<Unit, N>& units) {
  const auto unit = std::find_if(units.begin(), units.end() - 1, [&](const Unit& candidate) {
    return value % candidate.factor == 0;
  });
  return std::to_string(value / unit->factor).append(unit->name);
}

}  // namespace

std::optional<Duration> ParseDuration(std::string_view text) {
  const auto nanos = Parse(text, kDurationUnits);
  return nanos.has_value() ? std::optional(Duration(static_cast<std::int64_t>(*nanos)))
                           : std::nullopt;
}

std::string FormatDuration(Duration value) {
  return value == Duration::zero()
             ? "0s"
             : Format(static_cast<std::uint64_t>(value.count()), kDurationUnits);
}

std::optional<std::uint64_t> ParseBytes(std::string_view text) {
  return Parse(text, kByteUnits);
}

std::string FormatBytes(std::uint64_t value) {
  return value == 0 ? "0" : Format(value, kByteUnits);
}

std::optional<std::uint64_t> ParseCount(std::string_view text) {
  return Parse(text, std::array<Unit, 1>{{{"", 1}}});
}

std::size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row.back();
}

}  // namespace holdfast::server
