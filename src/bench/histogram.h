// Latency histogram with log-linear buckets: exact below 256 ns, then 128 buckets per power of two,
// so that a quantile is at most 0.8 % above the true one. Recording costs a few instructions and
// never allocates. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/time.h"

namespace holdfast::bench {

class Histogram {
 public:
  Histogram();

  // Negative values count as 0, values above 73 minutes as that.
  void Record(Duration value);

  // The smallest recorded value v (rounded up to its bucket's upper edge, never above max()) such
  // that at least `fraction` of all values are <= v. Zero if nothing was recorded.
  Duration Quantile(double fraction) const;

  std::uint64_t count() const { return count_; }
  Duration max() const { return max_; }
  void Clear();

 private:
  std::vector<std::uint64_t> counts_;
  std::uint64_t count_ = 0;
  Duration max_{0};
};

// What reports show of a histogram, in milliseconds.
struct LatencySummary {
  std::uint64_t count = 0;
  double p50_ms = 0;
  double p95_ms = 0;
  double p99_ms = 0;
  double p999_ms = 0;
  double max_ms = 0;
};

LatencySummary Summarize(const Histogram& histogram);
double ToMillisExact(Duration duration);

}  // namespace holdfast::bench
