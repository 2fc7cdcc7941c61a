#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "bench/capacity_bench.h"
#include "bench/capacity_load.h"

namespace holdfast::bench {
namespace {

std::size_t Count(const std::string& text, const std::string& what) {
  std::size_t count = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) {
    ++count;
  }
  return count;
}

LoadSecond Second(int at, double p99_ms, double gap_ms) {
  LoadSecond second;
  second.at = at;
  second.acquire = {
      .count = 100, .p50_ms = 5, .p95_ms = 8, .p99_ms = p99_ms, .p999_ms = 90, .max_ms = 95};
  second.gap_ms = gap_ms;
  return second;
}

// 60 s with a fault at 20 s and one at 40 s; everything stands for 2 s after the first.
CapacityReport Passed() {
  CapacityReport report;
  report.options.duration = Seconds(60);
  report.request_ids = 1'200'000;
  BenchReport& uncontended = report.loads.uncontended;
  uncontended.options.rate = 1600;
  uncontended.load.seconds = 60;
  uncontended.load.operations = 200'000;
  uncontended.load.acquire = {
      .count = 96'000, .p50_ms = 5, .p95_ms = 20, .p99_ms = 150, .p999_ms = 900, .max_ms = 2000};
  for (int at = 0; at < 60; ++at) {
    uncontended.load.timeline.push_back(Second(at, 30, at == 22 ? 2000 : at == 55 ? 70 : 15));
  }
  uncontended.load.windows = {{0, uncontended.load.timeline[0].acquire}};
  report.faults = {{20.2, "etcd's leader killed"}, {40.1, "etcd member started"}};
  report.figures.seconds = 60;
  report.figures.commits = 6000;
  report.figures.waits = 10;
  report.figures.cancelled_waits = 5;
  report.figures.expired_leases = 5;
  report.figures.etcd_client_bytes = 2e6;
  report.figures.processes = {
      {"etcd 0", 60, 1e8, 1e6}, {"node 0", 50, 2e8, 1e6}, {"client", 40, 1e8, 0}};
  return report;
}

TEST(CapacityVerdict, PassesWhatCarriesTheLoad) {
  const CapacityReport report = Passed();
  EXPECT_TRUE(Shortcomings(report).empty()) << Shortcomings(report).front();
  EXPECT_EQ(LongestGapMs(report, true), 2000);
  EXPECT_EQ(LongestGapMs(report, false), 70);
}

void ExpectOnly(const CapacityReport& report, const std::string& reason) {
  const std::vector<std::string> found = Shortcomings(report);
  ASSERT_EQ(found.size(), 1U) << reason;
  EXPECT_NE(found.front().find(reason), std::string::npos) << found.front();
}

TEST(CapacityVerdict, NamesEachShortcoming) {
  CapacityReport report = Passed();
  report.loads.uncontended.load.acquire.p99_ms = 200.5;
  ExpectOnly(report, "p99 of an uncontended acquire is 200.5 ms");
  report = Passed();
  report.loads.uncontended.load.refusals = {{"RENEW_EXPIRED", 2}};
  ExpectOnly(report, "lost: 2 RENEW_EXPIRED");
  report = Passed();
  report.loads.contended.unanswered = 3;
  ExpectOnly(report, "3 operations were never answered");
  report = Passed();
  report.loads.uncontended.backlog = 161;
  ExpectOnly(report, "161 pairs were due");
  report.loads.uncontended.backlog = 160;
  EXPECT_TRUE(Shortcomings(report).empty()) << "a tenth of a second is on its way";
  report = Passed();
  report.loads.uncontended.load.timeline[24].gap_ms = 5001;
  ExpectOnly(report, "everything stood for 5001 ms");
  report = Passed();
  report.faults.pop_back();
  ExpectOnly(report, "etcd's leader was not killed and started again");
  report.options.fault = false;
  EXPECT_TRUE(Shortcomings(report).empty());
  report = Passed();
  report.request_ids = 1'000'000;
  ExpectOnly(report, "1000000 request ids");
  report = Passed();
  report.figures.expired_leases = 0;
  ExpectOnly(report, "made no expiry");
}

TEST(CapacityVerdict, RefusalsOfTheContendedAreNoLoss) {
  CapacityReport report = Passed();
  report.loads.contended.load.refusals = {{"CANCELLED", 7}, {"RENEW_EXPIRED", 1}};
  EXPECT_TRUE(Shortcomings(report).empty());
}

TEST(CapacityVerdict, AStepBreaksByLatencyBacklogOrError) {
  CapacityStep step;
  step.loads.uncontended.options.rate = 1000;
  step.loads.uncontended.load.acquire.p99_ms = 200;
  EXPECT_EQ(BreakOf(step), "");
  step.loads.uncontended.load.acquire.p99_ms = 201;
  EXPECT_NE(BreakOf(step).find("p99"), std::string::npos);
  step.loads.uncontended.backlog = 101;
  EXPECT_NE(BreakOf(step).find("101 pairs"), std::string::npos);
  step.failure = "no node leads";
  EXPECT_EQ(BreakOf(step), "no node leads");
}

TEST(CapacityVerdict, SaysWhatIsUsedUp) {
  CapacityStep step;
  step.figures = Passed().figures;
  step.figures.cores = 2;
  step.figures.commit_seconds = 60;
  step.figures.timed_commits = 3000;
  step.figures.machine_cpu_percent = 120;
  EXPECT_EQ(BoundOf(step).find("the commits: 100 commits a second of 20.0 ms"), 0U)
      << BoundOf(step);
  step.figures.machine_cpu_percent = 190;
  EXPECT_EQ(
      BoundOf(step).find("the machine's CPU: CPU 190 of 200 % (etcd 60, nodes 50, client 40)"), 0U)
      << BoundOf(step);
}

TEST(CapacityReport, JsonAndTextHaveTheFigures) {
  CapacityReport report = Passed();
  report.loads.uncontended.load.errors = {{"UNKNOWN_OUTCOME", 4}};
  report.steps.emplace_back().rate = 3000;
  report.steps.back().loads.uncontended.load.acquire.p99_ms = 300;
  const auto json = nlohmann::json::parse(ToJson(report));
  EXPECT_EQ(json.at("bench"), "capacity");
  EXPECT_EQ(json.at("passed"), true);
  EXPECT_EQ(json.at("unknown_resolved"), 4);
  EXPECT_EQ(json.at("longest_gap_near_faults_ms"), 2000);
  EXPECT_EQ(json.at("faults").at(0).at("what"), "etcd's leader killed");
  EXPECT_EQ(json.at("windows").at(0).at("p99_ms"), 30);
  EXPECT_EQ(json.at("cluster").at("commits_per_s"), 100);
  EXPECT_EQ(json.at("cluster").at("etcd_client_bytes_per_operation"), 10);
  EXPECT_EQ(json.at("cluster").at("processes").size(), 3U);
  EXPECT_EQ(json.at("steps").at(0).at("carried"), false);
  EXPECT_EQ(json.at("uncontended").at("timeline").at(22).at("gap_ms"), 2000);
  EXPECT_EQ(json.at("contended").at("bench"), "locks");
  const std::string text = ToText(report);
  EXPECT_NE(text.find("\nPASSED\n"), std::string::npos) << text;
  EXPECT_NE(text.find("at 20.2 s: etcd's leader killed"), std::string::npos) << text;
  EXPECT_NE(text.find("at 3000/s"), std::string::npos) << text;
  report.request_ids = 0;
  EXPECT_EQ(nlohmann::json::parse(ToJson(report)).at("passed"), false);
  EXPECT_NE(ToText(report).find("\nNOT PASSED\n  0 request ids"), std::string::npos);
}

TEST(CapacityPlot, HasTheCurvesTheFaultsAndTheLimit) {
  CapacityReport report = Passed();
  const std::string plot = ToPlot(report);
  EXPECT_EQ(plot.find("<svg "), 0U);
  EXPECT_EQ(Count(plot, "<path "), 3U);
  EXPECT_EQ(Count(plot, "stroke-dasharray"), 2U);
  EXPECT_NE(plot.find(">20 s: etcd's leader killed<"), std::string::npos);
  EXPECT_NE(plot.find(">40 s: etcd member started<"), std::string::npos);
  EXPECT_NE(plot.find(">200 ms<"), std::string::npos);
  EXPECT_EQ(Count(plot, " M"), 3U);
  report.loads.uncontended.load.timeline[30].acquire = {};
  EXPECT_EQ(Count(ToPlot(report), " M"), 6U) << "a second without acquires is a gap";
  report.loads.uncontended.load.timeline.clear();
  EXPECT_EQ(Count(ToPlot(report), " M"), 0U);
}

TEST(CapacityLoad, AFifthIsContendedAndHoldsAreRenewedAtTheRate) {
  CapacityOptions options;
  const LocksBenchOptions uncontended = UncontendedLoad(options, 2000);
  const LocksBenchOptions contended = ContendedLoad(2000);
  EXPECT_DOUBLE_EQ(uncontended.rate, 1600);
  EXPECT_DOUBLE_EQ(contended.rate, 400);
  EXPECT_EQ(uncontended.ttl, Seconds(30)) << "20,000 holds, each renewed every third of it";
  EXPECT_EQ(UncontendedLoad(options, 1e6).ttl, Seconds(10));
  EXPECT_LT(contended.resources, 100U);
  EXPECT_GT(contended.impatient, 0);
  EXPECT_GT(contended.abandoned, 0);
}

}  // namespace
}  // namespace holdfast::bench
