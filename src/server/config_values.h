// Texts of configuration values: durations with a unit, sizes with a unit.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/time.h"

namespace holdfast::server {

// "200ms", "10s", "5m", "2h"; "0" needs no unit. Whole numbers, not negative.
std::optional<Duration> ParseDuration(std::string_view text);
// In the largest unit that gives a whole number.
std::string FormatDuration(Duration value);

// "1048576", "1024KiB", "1MiB", "1GiB".
std::optional<std::uint64_t> ParseBytes(std::string_view text);
std::string FormatBytes(std::uint64_t value);

std::optional<std::uint64_t> ParseCount(std::string_view text);

// How many single-character edits turn one into the other.
std::size_t EditDistance(std::string_view a, std::string_view b);

}  // namespace holdfast::server
