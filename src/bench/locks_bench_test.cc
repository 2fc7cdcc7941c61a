#include "bench/locks_bench.h"

#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "bench/fake_service.h"
#include "holdfast/v1/types.pb.h"

namespace holdfast::bench {
namespace {

LocksBenchOptions Quick(const FakeService& service) {
  LocksBenchOptions options;
  options.endpoints = {service.endpoint()};
  options.concurrency = 4;
  options.warm_up = Millis(50);
  options.duration = Millis(500);
  return options;
}

BenchReport RunOrDie(const LocksBenchOptions& options) {
  Result<BenchReport> report = RunLocksBench(options);
  EXPECT_TRUE(report.ok()) << (report.ok() ? "" : report.error().message);
  return report.ok() ? *report : BenchReport{};
}

class EachMode : public testing::TestWithParam<LoadMode> {};

TEST_P(EachMode, MakesPairsAndLeavesNothingHeld) {
  FakeService service;
  LocksBenchOptions options = Quick(service);
  options.mode = GetParam();
  options.renewals = 1;
  const BenchReport report = RunOrDie(options);
  EXPECT_GT(report.load.pairs, 0U);
  EXPECT_EQ(report.load.pair.count, report.load.pairs);
  EXPECT_NEAR(report.load.pairs_per_s, static_cast<double>(report.load.pairs) / 0.5, 1.0);
  EXPECT_GT(report.load.acquire.p50_ms, 0.0);
  EXPECT_GT(report.load.pair.p50_ms, 0.0);
  EXPECT_LE(report.load.pair.p50_ms, report.load.pair.p99_ms);
  EXPECT_EQ(Total(report.load.errors), 0U);
  EXPECT_EQ(Total(report.load.refusals), 0U);
  const FakeService::Seen seen = service.seen();
  EXPECT_EQ(seen.held, 0U);
  EXPECT_EQ(seen.acquires, seen.releases);
  EXPECT_EQ(seen.renewals, seen.releases);
  EXPECT_EQ(seen.resources, 4U);
  EXPECT_EQ(seen.below_watermark, 0U);
  EXPECT_EQ(seen.streams, GetParam() == LoadMode::kStream   ? 4U
                          : GetParam() == LoadMode::kShared ? 1U
                                                            : 0U);
}

TEST_P(EachMode, SendsAgainAfterATransientProblem) {
  FakeService service;
  service.FailNext(3, v1::Problem::UNAVAILABLE);
  LocksBenchOptions options = Quick(service);
  options.mode = GetParam();
  options.warm_up = Duration(0);
  const BenchReport report = RunOrDie(options);
  EXPECT_EQ(report.load.errors,
            (std::map<std::string, std::uint64_t, std::less<>>{{"UNAVAILABLE", 3}}));
  EXPECT_GT(report.load.pairs, 0U);
  EXPECT_EQ(Total(report.load.refusals), 0U);
}

TEST_P(EachMode, EndsAtOnceWhenTheServiceRefusesForGood) {
  FakeService service;
  service.FailNext(1'000'000'000, v1::Problem::INVALID_ARGUMENT);
  LocksBenchOptions options = Quick(service);
  options.mode = GetParam();
  options.duration = Seconds(60);
  const LoadTime before = LoadClock::now();
  const Result<BenchReport> report = RunLocksBench(options);
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(report.error().message, "problem");
  EXPECT_LT(LoadClock::now() - before, Seconds(30));
}

INSTANTIATE_TEST_SUITE_P(LocksBench, EachMode,
                         testing::Values(LoadMode::kStream, LoadMode::kUnary, LoadMode::kShared),
                         [](const auto& tested) {
                           return std::string(LoadModeName(tested.param));
                         });

TEST(LocksBench, ASharedStreamPacksOperationsIntoFrames) {
  FakeService service;
  LocksBenchOptions options = Quick(service);
  options.mode = LoadMode::kShared;
  options.concurrency = 32;
  RunOrDie(options);
  EXPECT_GT(service.seen().largest_frame, 8U);
}

TEST(LocksBench, ALostReplyIsAskedForAgainUnderTheSameRequestId) {
  FakeService service;
  service.LoseNextReply();
  LocksBenchOptions options = Quick(service);
  options.warm_up = Duration(0);
  options.duration = Seconds(1);
  const BenchReport report = RunOrDie(options);
  EXPECT_EQ(report.load.errors,
            (std::map<std::string, std::uint64_t, std::less<>>{{"LOST_STREAM", 1}}));
  EXPECT_EQ(Total(report.load.refusals), 0U) << "its own lease was in the way";
  EXPECT_EQ(service.seen().held, 0U);
  EXPECT_EQ(service.seen().streams, 5U);
}

TEST(LocksBench, ContendedResourcesAreRefusedAndCounted) {
  FakeService service;
  LocksBenchOptions options = Quick(service);
  options.choice = ResourceChoice::kRandom;
  options.resources = 1;
  const BenchReport report = RunOrDie(options);
  EXPECT_GT(report.load.refusals.at("HELD"), 0U);
  EXPECT_GT(report.load.pairs, 0U);
  EXPECT_EQ(service.seen().resources, 1U);
  EXPECT_EQ(service.seen().held, 0U);
}

TEST(LocksBench, WorkersGoRoundTheirOwnResources) {
  FakeService service;
  LocksBenchOptions options = Quick(service);
  options.resources = 40;
  const BenchReport report = RunOrDie(options);
  EXPECT_EQ(Total(report.load.refusals), 0U);
  EXPECT_EQ(service.seen().resources, 40U);
}

TEST(LocksBench, AnOpenLoopKeepsItsRate) {
  FakeService service;
  LocksBenchOptions options = Quick(service);
  options.rate = 200;
  options.warm_up = Duration(0);
  options.duration = Seconds(1);
  const BenchReport report = RunOrDie(options);
  // However slow the machine is, what was due is through, in flight (at most 4) or in the backlog.
  EXPECT_GT(report.load.pairs, 0U);
  EXPECT_NEAR(static_cast<double>(report.load.pairs + report.backlog), 198.0, 3.0);
}

TEST(LocksBench, AnOpenLoopChargesAStallToEveryPairThatWasDueInIt) {
  FakeService service;
  service.StallOnce(Millis(500));
  LocksBenchOptions options = Quick(service);
  options.rate = 200;
  options.warm_up = Duration(0);
  options.duration = Seconds(1);
  const BenchReport report = RunOrDie(options);
  // About 100 of 200 pairs were due during the stall, evenly: a quarter of all waited 250 ms or
  // more. A generator that waited with the server would have seen 4 slow pairs.
  EXPECT_GT(report.load.pair.p95_ms, 300.0);
  EXPECT_GT(report.load.longest_gap_ms, 400.0);
  EXPECT_GT(report.load.window_worst.max_ms, 400.0);
}

TEST(LocksBench, HoldsAreTakenRenewedAndReleased) {
  FakeService service;
  LocksBenchOptions options = Quick(service);
  options.holds = 50;
  options.ttl = Millis(300);  // renewed each 100 ms
  options.duration = Seconds(1);
  const BenchReport report = RunOrDie(options);
  const FakeService::Seen seen = service.seen();
  EXPECT_EQ(seen.resources, 54U);
  EXPECT_GE(seen.renewals, 50U);
  EXPECT_GT(report.load.renew.count, 0U);
  EXPECT_EQ(seen.held, 0U);
}

TEST(LocksBench, AbandonedLeasesAreNotReleased) {
  FakeService service;
  LocksBenchOptions options = Quick(service);
  options.renewals = 1;
  options.abandoned = 1;
  options.resources = 1'000'000;
  const BenchReport report = RunOrDie(options);
  const FakeService::Seen seen = service.seen();
  EXPECT_GT(seen.acquires, 0U);
  EXPECT_EQ(seen.renewals, seen.acquires);
  EXPECT_EQ(seen.releases, 0U);
  EXPECT_EQ(seen.held, seen.acquires);
  EXPECT_EQ(report.load.pairs, 0U);
  EXPECT_GT(report.load.acquire.count, 0U);
  EXPECT_EQ(report.unanswered, 0U);
}

TEST(LocksBench, TheImpatientCancelWhatStillWaits) {
  FakeService service;
  service.StallOnce(Millis(300));
  LocksBenchOptions options = Quick(service);
  options.warm_up = Duration(0);
  options.impatient = 1;
  options.patience = Millis(20);
  const BenchReport report = RunOrDie(options);
  EXPECT_GE(service.seen().cancels, 4U);
  EXPECT_GT(report.load.pairs, 0U);
  EXPECT_EQ(Total(report.load.errors), 0U);
  EXPECT_EQ(service.seen().held, 0U);
}

TEST(LocksBench, ThePatientCancelNothing) {
  FakeService service;
  service.StallOnce(Millis(300));
  LocksBenchOptions options = Quick(service);
  options.impatient = 1;
  options.patience = Seconds(60);
  RunOrDie(options);
  EXPECT_EQ(service.seen().cancels, 0U);
}

TEST(LocksBench, EachTenSecondsHaveTheirLatencies) {
  const LoadTime begin = LoadClock::now();
  Recorder::Options options;
  options.begin = begin;
  options.duration = Seconds(25);
  Recorder recorder(options);
  recorder.Advance(begin);
  for (int second = 0; second < 25; ++second) {
    const LoadTime now = begin + Seconds(second) + Millis(500);
    recorder.Operation(Verb::kAcquire, now - Millis(second < 10 ? 1 : 100), now);
  }
  recorder.Advance(begin + Seconds(25));
  const LoadResult result = recorder.Finish();
  ASSERT_EQ(result.windows.size(), 3U);
  EXPECT_EQ(result.windows[1].from, 10);
  EXPECT_NEAR(result.windows[0].acquire.p99_ms, 1, 0.1);
  EXPECT_NEAR(result.windows[1].acquire.p99_ms, 100, 1);
  EXPECT_EQ(result.windows[2].acquire.count, 5U);
  ASSERT_EQ(result.timeline.size(), 25U);
  EXPECT_NEAR(result.timeline[0].gap_ms, 500, 1);
  EXPECT_NEAR(result.timeline[7].gap_ms, 1000, 1);
}

TEST(LocksBench, NamesTheOptionThatIsWrong) {
  LocksBenchOptions options;
  EXPECT_EQ(RunLocksBench(options).error().field, "endpoints");
  options.endpoints = {"127.0.0.1:1"};
  options.concurrency = 0;
  EXPECT_EQ(RunLocksBench(options).error().field, "concurrency");
  options.concurrency = 1;
  options.rate = -1;
  EXPECT_EQ(RunLocksBench(options).error().field, "rate");
  options.rate = 0;
  options.abandoned = 1.5;
  EXPECT_EQ(RunLocksBench(options).error().field, "abandoned");
  options.abandoned = 0;
  options.impatient = 0.5;
  options.mode = LoadMode::kUnary;
  EXPECT_EQ(RunLocksBench(options).error().field, "impatient");
}

TEST(LocksBench, SaysWhereItCannotConnect) {
  LocksBenchOptions options;
  options.endpoints = {"127.0.0.1:1"};
  options.connect_timeout = Millis(200);
  const Result<BenchReport> report = RunLocksBench(options);
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(report.error().message.find("127.0.0.1:1"), std::string::npos);
}

TEST(LocksReport, JsonHasEveryFigure) {
  BenchReport report;
  report.options.endpoints = {"127.0.0.1:9"};
  report.load.seconds = 2;
  report.load.pairs = 10;
  report.load.pairs_per_s = 5;
  report.load.acquire = {
      .count = 10, .p50_ms = 1, .p95_ms = 2, .p99_ms = 3, .p999_ms = 4, .max_ms = 5};
  report.load.refusals = {{"HELD", 7}};
  report.load.errors = {{"UNAVAILABLE", 2}};
  const auto json = nlohmann::json::parse(ToJson(report));
  EXPECT_EQ(json.at("bench"), "locks");
  EXPECT_EQ(json.at("options").at("mode"), "stream");
  EXPECT_EQ(json.at("options").at("concurrency"), 64);
  EXPECT_EQ(json.at("pairs"), 10);
  EXPECT_EQ(json.at("pairs_per_s"), 5.0);
  for (const char* name : {"acquire", "renew", "release", "pair", "window_worst", "window_gap"}) {
    for (const char* figure : {"count", "p50_ms", "p95_ms", "p99_ms", "p999_ms", "max_ms"}) {
      EXPECT_TRUE(json.at(name).at(figure).is_number()) << name << "." << figure;
    }
  }
  EXPECT_EQ(json.at("acquire").at("p999_ms"), 4.0);
  EXPECT_EQ(json.at("refusals").at("HELD"), 7);
  EXPECT_EQ(json.at("errors").at("UNAVAILABLE"), 2);
  for (const char* name : {"seconds", "operations", "ops_per_s", "longest_gap_ms", "backlog",
                           "client_cpu_percent", "server_cpu_percent", "other_cpu_percent"}) {
    EXPECT_TRUE(json.at(name).is_number()) << name;
  }
  EXPECT_NE(ToText(report).find("HELD=7"), std::string::npos);
}

}  // namespace
}  // namespace holdfast::bench
