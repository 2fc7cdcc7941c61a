// A histogram with fixed bounds, for metrics: one thread records at a time, any thread reads. No
// locks and no allocation; a record is a short search and two relaxed stores.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/time.h"

namespace holdfast {

// What a histogram said at some moment. Counts may be some records apart from the sum.
struct HistogramData {
  std::vector<double> bounds;         // upper bounds, rising; above the last one is no bound
  std::vector<std::uint64_t> counts;  // one for each bound, and one for what is above them
  double sum = 0;
};

// Seconds, for what usually takes milliseconds.
inline constexpr std::array<double, 19> kLatencyBounds{
    0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05,
    0.1,     0.25,   0.5,     1,      2.5,   5,      10,    30,   60};

class Histogram {
 public:
  static constexpr std::size_t kBoundsMax = 24;

  Histogram() : Histogram(kLatencyBounds) {}
  // `bounds` rise and must outlive the histogram: they are constants.
  template <std::size_t kCount>
  explicit Histogram(const std::array<double, kCount>& bounds)
      : bounds_(bounds.data()), bound_count_(kCount) {
    static_assert(kCount <= kBoundsMax);
  }

  // Calls must not overlap.
  void Record(double value) {
    std::size_t bucket = 0;
    while (bucket < bound_count_ && bounds_[bucket] < value) {
      ++bucket;
    }
    Bump(counts_[bucket], std::uint64_t{1});
    Bump(sum_, value);
  }
  void Record(Duration value) { Record(static_cast<double>(value.count()) * 1e-9); }

  // Any thread.
  HistogramData Read() const {
    HistogramData data;
    data.bounds.assign(bounds_, bounds_ + bound_count_);
    for (std::size_t i = 0; i <= bound_count_; ++i) {
      data.counts.push_back(counts_[i].load(std::memory_order_relaxed));
    }
    data.sum = sum_.load(std::memory_order_relaxed);
    return data;
  }

  // Adds to a counter that only one thread writes at a time: cheaper than fetch_add.
  template <typename Number>
  static void Bump(std::atomic<Number>& counter, Number by) {
    counter.store(counter.load(std::memory_order_relaxed) + by, std::memory_order_relaxed);
  }

 private:
  const double* bounds_;
  std::size_t bound_count_;
  std::array<std::atomic<std::uint64_t>, kBoundsMax + 1> counts_{};
  std::atomic<double> sum_{0};
};

}  // namespace holdfast
