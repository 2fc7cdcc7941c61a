#include "bench/capacity_bench.h"

#include <string>

#include <gtest/gtest.h>

#include "bench/cluster_servers.h"

namespace holdfast::bench {
namespace {

CapacityOptions Small() {
  CapacityOptions options;
  options.holdfast = HOLDFAST_PROGRAM;
  options.work_dir = testing::TempDir();
  options.rate = 200;
  options.resources = 1000;
  options.holds = 100;
  options.warm_up = Seconds(1);
  options.duration = Seconds(12);
  options.remembered = Seconds(2);
  return options;
}

// The machine of a test may be slow, so nothing is said about latency.
TEST(CapacityBench, CarriesASmallLoadOverTheDeathOfEtcdsLeader) {
  CapacityOptions options = Small();
  const Result<CapacityReport> report = RunCapacityBench(options);
  ASSERT_TRUE(report.ok()) << report.error().message;
  const std::string text = ToText(*report);
  ASSERT_EQ(report->faults.size(), 2U) << text;
  EXPECT_NEAR(report->faults[0].at_s, 4, 2);
  const BenchReport& uncontended = report->loads.uncontended;
  EXPECT_GT(uncontended.load.pairs, 0U);
  EXPECT_GT(uncontended.load.renew.count, 0U);
  EXPECT_EQ(Total(uncontended.load.refusals), 0U) << text;
  EXPECT_EQ(uncontended.unanswered + report->loads.contended.unanswered, 0U) << text;
  EXPECT_EQ(uncontended.load.windows.size(), 2U);
  EXPECT_GE(report->request_ids, 400);
  const ClusterFigures& figures = report->figures;
  for (const double figure :
       {figures.commits, figures.commit_seconds, figures.log_bytes, figures.etcd_fsyncs,
        figures.etcd_backend_commits, figures.etcd_client_bytes, figures.etcd_peer_bytes,
        figures.waits, figures.cancelled_waits, figures.expired_leases,
        figures.machine_cpu_percent}) {
    EXPECT_GT(figure, 0) << text;
  }
  ASSERT_EQ(figures.processes.size(), 7U);
  for (const ProcessFigures& process : figures.processes) {
    EXPECT_GT(process.resident_bytes_most, 1e6) << process.name;
    EXPECT_GT(process.cpu_percent, 0) << process.name;
  }
}

TEST(CapacityBench, SaysAtWhichRateItBreaks) {
  CapacityOptions options = Small();
  options.rate = 100'000;  // more than the one thread of the load can make
  options.holds = 0;
  options.warm_up = Duration(0);
  options.duration = Seconds(3);
  options.remembered = Duration(0);
  options.fault = false;
  options.until_it_breaks = true;
  options.step = Seconds(1);
  const Result<CapacityReport> report = RunCapacityBench(options);
  ASSERT_TRUE(report.ok()) << report.error().message;
  EXPECT_TRUE(report->faults.empty());
  ASSERT_EQ(report->steps.size(), 1U);
  const CapacityStep& step = report->steps.front();
  EXPECT_EQ(step.failure, "");
  EXPECT_EQ(step.rate, 100'000);
  EXPECT_FALSE(BreakOf(step).empty());
  EXPECT_GT(step.figures.commits, 0);
  EXPECT_FALSE(Shortcomings(*report).empty());
}

TEST(CapacityBench, SaysWhyEtcdDidNotStart) {
  CapacityOptions options = Small();
  options.etcd = "/bin/echo";
  const Result<CapacityReport> report = RunCapacityBench(options);
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(report.error().message.find("(/bin/echo) ended at once"), std::string::npos)
      << report.error().message;
  options.etcd = "/nonexistent/etcd";
  EXPECT_EQ(RunCapacityBench(options).error().code, ErrorCode::kUnavailable);
}

TEST(CapacityBench, NamesTheOptionThatIsWrong) {
  CapacityOptions options = Small();
  options.rate = 0;
  EXPECT_EQ(RunCapacityBench(options).error().field, "rate");
  options = Small();
  options.duration = Seconds(1);
  EXPECT_EQ(RunCapacityBench(options).error().field, "duration");
  options = Small();
  options.resources = 0;
  EXPECT_EQ(RunCapacityBench(options).error().field, "resources");
  options = Small();
  options.holds = -1;
  EXPECT_EQ(RunCapacityBench(options).error().field, "holds");
  options = Small();
  options.work_dir = "/nonexistent";
  EXPECT_EQ(RunCapacityBench(options).error().field, "work_dir");
  options.work_dir = "/dev/shm";
  EXPECT_EQ(RunCapacityBench(options).error().field, "work_dir");
}

}  // namespace
}  // namespace holdfast::bench
