#include "bench/metrics_text.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "bench/cpu_usage.h"
#include "bench/local_server.h"

namespace holdfast::bench {
namespace {

TEST(Metrics, SumsTheSeriesOfAName) {
  const Metrics metrics = Metrics::Parse(
      "# HELP ended_total Leases that ended.\n"
      "# TYPE ended_total counter\n"
      "ended_total{cause=\"EXPIRED\"} 3\n"
      "ended_total{cause=\"RELEASED\",front=\"a b\"} 4.5e+01\n"
      "ended 7\r\n"
      "ended_total_more 100\n"
      "seconds_count 12\n"
      "seconds_sum NaN\n"
      "broken\n"
      "broken_too 1x\n"
      "last 9");
  EXPECT_EQ(metrics.Sum("ended_total"), 48);
  EXPECT_EQ(metrics.Sum("ended_total", "cause=\"EXPIRED\""), 3);
  EXPECT_EQ(metrics.Sum("ended_total", "cause=\"BROKEN\""), 0);
  EXPECT_EQ(metrics.Sum("seconds_count"), 12);
  EXPECT_EQ(metrics.Sum("seconds"), 0);
  EXPECT_EQ(metrics.Sum("broken_too"), 0);
  EXPECT_EQ(metrics.Sum("last"), 9);
}

TEST(Metrics, NobodyListens) {
  const Result<int> port = FreePort();
  ASSERT_TRUE(port.ok());
  const Result<Metrics> metrics = FetchMetrics(*port, Seconds(5));
  ASSERT_FALSE(metrics.ok());
  EXPECT_EQ(metrics.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(metrics.error().message.find(std::to_string(*port)), std::string::npos);
}

TEST(RisingCounter, GoesOnOverARestart) {
  RisingCounter counter;
  EXPECT_EQ(counter.risen(), 0);
  counter.Read(100);
  EXPECT_EQ(counter.risen(), 0) << "what was before it is watched does not count";
  counter.Read(130);
  EXPECT_EQ(counter.risen(), 30);
  counter.Read(5);  // started again without our knowledge
  EXPECT_EQ(counter.risen(), 35);
  counter.Restarted();
  counter.Read(50);
  EXPECT_EQ(counter.risen(), 85);
}

TEST(ProcessStat, IsReadBehindANameWithParentheses) {
  const auto stat = ParseProcessStat(
      "123 (a (b) c) S 7 123 123 0 -1 4194304 100 200 3 4 250 50 20 5 20 0 9 0 1000 8192000 11 "
      "18446744073709551615 1 1 0 0");
  ASSERT_TRUE(stat.has_value());
  const std::int64_t tick = 1'000'000'000 / sysconf(_SC_CLK_TCK);
  EXPECT_EQ(stat->parent, 7);
  EXPECT_EQ(stat->used, Duration(300 * tick));
  EXPECT_EQ(stat->used_by_children, Duration(25 * tick));
  EXPECT_EQ(stat->resident_bytes, 11 * sysconf(_SC_PAGESIZE));
}

TEST(ProcessStat, RefusesWhatIsNone) {
  EXPECT_FALSE(ParseProcessStat("").has_value());
  EXPECT_FALSE(ParseProcessStat("123 (x) S 7 1 2").has_value());
}

TEST(SampleProcess, OfThisProcessAndOfNone) {
  const auto usage = SampleProcess(getpid());
  ASSERT_TRUE(usage.has_value());
  EXPECT_GT(usage->resident_bytes, 1'000'000);
  EXPECT_FALSE(SampleProcess(1 << 30).has_value());
}

}  // namespace
}  // namespace holdfast::bench
