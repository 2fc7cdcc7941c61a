#include "bench/histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace holdfast::bench {
namespace {

constexpr unsigned kSubBits = 7;  // 128 buckets per power of two
constexpr unsigned kValueBits = 42;
constexpr std::uint64_t kLargest = (std::uint64_t{1} << kValueBits) - 1;

// Values of 8 bits or less are their own index; a longer one keeps its 8 highest bits.
std::size_t IndexOf(std::uint64_t value) {
  const auto width = static_cast<unsigned>(std::bit_width(value));
  const unsigned shift = width > kSubBits + 1 ? width - (kSubBits + 1) : 0;
  return (static_cast<std::size_t>(shift) << kSubBits) + static_cast<std::size_t>(value >> shift);
}

std::uint64_t UpperEdge(std::size_t index) {
  if (index < (std::size_t{1} << (kSubBits + 1))) {
    return index;
  }
  const std::size_t shift = (index >> kSubBits) - 1;
  const std::size_t high = index - (shift << kSubBits);
  return ((std::uint64_t{high} + 1) << shift) - 1;
}

}  // namespace

Histogram::Histogram() : counts_(IndexOf(kLargest) + 1) {}

void Histogram::Record(Duration value) {
  const auto nanos = static_cast<std::uint64_t>(std::max<std::int64_t>(value.count(), 0));
  ++counts_[IndexOf(std::min(nanos, kLargest))];
  ++count_;
  max_ = std::max(max_, value);
}

Duration Histogram::Quantile(double fraction) const {
  const auto wanted = static_cast<std::uint64_t>(std::ceil(fraction * static_cast<double>(count_)));
  const std::uint64_t rank = std::max<std::uint64_t>(wanted, 1);
  std::uint64_t seen = 0;
  for (std::size_t index = 0; index < counts_.size(); ++index) {
    seen += counts_[index];
    if (seen >= rank) {
      return std::min(max_, Duration(static_cast<std::int64_t>(UpperEdge(index))));
    }
  }
  return max_;
}

void Histogram::Clear() {
  std::fill(counts_.begin(), counts_.end(), 0);
  count_ = 0;
  max_ = Duration(0);
}

double ToMillisExact(Duration duration) {
  return static_cast<double>(duration.count()) / 1e6;
}

LatencySummary Summarize(const Histogram& histogram) {
  return LatencySummary{.count = histogram.count(),
                        .p50_ms = ToMillisExact(histogram.Quantile(0.5)),
                        .p95_ms = ToMillisExact(histogram.Quantile(0.95)),
                        .p99_ms = ToMillisExact(histogram.Quantile(0.99)),
                        .p999_ms = ToMillisExact(histogram.Quantile(0.999)),
                        .max_ms = ToMillisExact(histogram.max())};
}

}  // namespace holdfast::bench
