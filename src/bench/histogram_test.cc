#include "bench/histogram.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace holdfast::bench {
namespace {

TEST(Histogram, IsEmptyAtFirst) {
  const Histogram histogram;
  EXPECT_EQ(histogram.count(), 0U);
  EXPECT_EQ(histogram.Quantile(0.99), Duration(0));
}

TEST(Histogram, SmallValuesAreExact) {
  Histogram histogram;
  for (int value = 1; value <= 200; ++value) {
    histogram.Record(Duration(value));
  }
  EXPECT_EQ(histogram.Quantile(0.5), Duration(100));
  EXPECT_EQ(histogram.Quantile(0.99), Duration(198));
  EXPECT_EQ(histogram.Quantile(1.0), Duration(200));
  EXPECT_EQ(histogram.Quantile(0.0), Duration(1));
}

TEST(Histogram, QuantilesAreWithinOnePercentAboveTheTrueOnes) {
  std::mt19937_64 random(7);
  std::lognormal_distribution<double> latency(13.0, 2.0);  // nanoseconds around 0.4 ms, long tail
  Histogram histogram;
  std::vector<std::int64_t> values;
  for (int i = 0; i < 100'000; ++i) {
    values.push_back(static_cast<std::int64_t>(latency(random)));
    histogram.Record(Duration(values.back()));
  }
  std::sort(values.begin(), values.end());
  for (const double fraction : {0.01, 0.5, 0.95, 0.99, 0.999}) {
    const auto rank =
        static_cast<std::size_t>(std::ceil(fraction * static_cast<double>(values.size())));
    const auto exact = static_cast<double>(values[rank - 1]);
    const auto found = static_cast<double>(histogram.Quantile(fraction).count());
    EXPECT_GE(found, exact) << fraction;
    EXPECT_LE(found, exact * 1.01) << fraction;
  }
  EXPECT_EQ(histogram.max(), Duration(values.back()));
}

TEST(Histogram, ClampsWhatCannotBeATime) {
  Histogram histogram;
  histogram.Record(Duration(-5));
  EXPECT_EQ(histogram.Quantile(1.0), Duration(0));
  histogram.Record(std::chrono::hours(1000));
  EXPECT_EQ(histogram.count(), 2U);
  EXPECT_EQ(histogram.max(), std::chrono::hours(1000));
  EXPECT_GE(histogram.Quantile(1.0), std::chrono::minutes(73));
}

TEST(Histogram, ClearForgetsEverything) {
  Histogram histogram;
  histogram.Record(Millis(3));
  histogram.Clear();
  EXPECT_EQ(histogram.count(), 0U);
  EXPECT_EQ(histogram.max(), Duration(0));
  histogram.Record(Millis(1));
  EXPECT_EQ(histogram.Quantile(1.0), Millis(1));
}

}  // namespace
}  // namespace holdfast::bench
