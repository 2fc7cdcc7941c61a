#include "server/metrics.h"

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "holdfast/v1/admin.pb.h"
#include "server/config.h"
#include "server/telemetry.h"
#include "server/ttl_advice.h"

namespace holdfast::server {
namespace {

engine::Reply ReplyOf(core::Outcome&& outcome, bool waited = false) {
  return {.tag = 1, .answer = std::move(outcome), .index = 1, .waited = waited};
}

core::Outcome RefusedAs(core::RefusalCode code) {
  core::Refused refused;
  refused.code = code;
  return refused;
}

MeterVerb VerbOf(core::CommandBody&& body) {
  return MeterVerbOf(core::Command{"alice", "default", std::move(body)});
}

class MetricsTest : public testing::Test {
 protected:
  std::string Text() {
    const std::vector<FrontLoad> fronts{{"grpc", {.calls = 5}, &grpc_}, {"http", {}, &http_}};
    return MetricsText({.status = status_,
                        .stats = stats_,
                        .watchers = 3,
                        .fronts = fronts,
                        .telemetry = telemetry_});
  }
  void Expect(std::initializer_list<const char*> lines) {
    const std::string text = Text();
    for (const char* line : lines) {
      EXPECT_NE(text.find(std::string(line) + "\n"), std::string::npos) << line << " is not in\n"
                                                                        << text;
    }
  }

  v1::GetStatusResponse status_;
  engine::RunnerStats stats_;
  RequestMeter grpc_;
  RequestMeter http_;
  Telemetry telemetry_{{.hot_resources = 4, .recommended_ttl_min = Seconds(5)}};
};

TEST_F(MetricsTest, TextOfPrometheus) {
  status_.set_holds(7);
  status_.mutable_expiry_lag()->set_nanos(250'000'000);
  status_.set_version("1.2");
  stats_.engine.commands = 11;
  stats_.engine.queue_depth = 2;
  stats_.inbox = 1;
  stats_.state_time_lag = Millis(1500);
  stats_.accepting_writes = false;
  Expect({"# TYPE holdfast_operations_total counter",
          "holdfast_operations_total{kind=\"command\"} 11", "# TYPE holdfast_holds gauge",
          "holdfast_holds 7", "holdfast_expiry_lag_seconds 0.25", "holdfast_watchers 3",
          "holdfast_accepting_writes 0", "holdfast_build_info{version=\"1.2\"} 1",
          "holdfast_front_open_calls{front=\"grpc\"} 5",
          "holdfast_front_open_calls{front=\"http\"} 0", "holdfast_queue_depth 3",
          "holdfast_state_time_lag_seconds 1.5", "holdfast_recommended_ttl_min_seconds 5"});
  EXPECT_EQ(Text().find("snapshot_age"), std::string::npos) << "there is no snapshot yet";
}

TEST_F(MetricsTest, FrontsAreSummed) {
  const MeterVerb acquire = VerbOf(core::Acquire{});
  grpc_.Record(acquire, ReplyOf(core::Granted{}), Millis(1));
  http_.Record(acquire, ReplyOf(core::Granted{}), Millis(3));
  http_.Record(acquire, ReplyOf(RefusedAs(core::RefusalCode::kHeld)), Seconds(100));
  Expect({"holdfast_requests_total{verb=\"acquire\",outcome=\"GRANTED\"} 2",
          "holdfast_requests_total{verb=\"acquire\",outcome=\"HELD\"} 1",
          "holdfast_requests_total{verb=\"acquire\",outcome=\"WAIT_TIMEOUT\"} 0",
          "holdfast_requests_total{verb=\"campaign\",outcome=\"GRANTED\"} 0",
          "holdfast_request_duration_seconds_bucket{verb=\"acquire\",le=\"0.0005\"} 0",
          "holdfast_request_duration_seconds_bucket{verb=\"acquire\",le=\"0.001\"} 1",
          "holdfast_request_duration_seconds_bucket{verb=\"acquire\",le=\"0.005\"} 2",
          "holdfast_request_duration_seconds_bucket{verb=\"acquire\",le=\"60\"} 2",
          "holdfast_request_duration_seconds_bucket{verb=\"acquire\",le=\"+Inf\"} 3",
          "holdfast_request_duration_seconds_sum{verb=\"acquire\"} 100.004"});
}

TEST_F(MetricsTest, WaitsAreApartFromLatency) {
  core::Acquire campaign;
  campaign.campaign = true;
  grpc_.Record(VerbOf(std::move(campaign)), ReplyOf(core::Granted{}, true), Seconds(2));
  Expect({"holdfast_requests_total{verb=\"campaign\",outcome=\"GRANTED\"} 1",
          "holdfast_request_duration_seconds_count{verb=\"campaign\"} 0",
          "holdfast_wait_duration_seconds_sum 2", "holdfast_wait_duration_seconds_count 1"});
}

TEST_F(MetricsTest, EveryKindOfAnswerIsCounted) {
  grpc_.Record(VerbOf(core::Renew{}), ReplyOf(core::Renewed{}), {});
  grpc_.Record(VerbOf(core::Renew{}), ReplyOf(core::NotRenewed{}), {});
  grpc_.Record(VerbOf(core::Release{}), ReplyOf(core::Released{false, core::Cause::kExpired}), {});
  grpc_.Record(VerbOf(core::KeepAlive{}), ReplyOf(core::SessionKept{}), {});
  grpc_.Record(VerbOf(core::Cancel{}), ReplyOf(core::NoSuchNamespace{}), {});
  engine::Reply error;
  error.answer = Error{ErrorCode::kOverloaded, "", "", ""};
  grpc_.Record(VerbOf(core::Break{}), error, {});
  engine::Reply verdict;
  verdict.answer = core::View(core::TokenView{core::TokenVerdict::kOld});
  grpc_.Record(MeterVerbOf(core::Query(core::CheckToken{})), verdict, {});
  engine::Reply counts;
  counts.answer = core::View(core::CountsView{});
  grpc_.Record(MeterVerbOf(core::Query(core::GetCounts{})), counts, {});
  grpc_.RecordDenied();
  http_.RecordTurnedAway();
  Expect({"holdfast_requests_total{verb=\"renew\",outcome=\"OK\"} 1",
          "holdfast_requests_total{verb=\"renew\",outcome=\"REFUSED\"} 1",
          "holdfast_requests_total{verb=\"release\",outcome=\"REFUSED\"} 1",
          "holdfast_requests_total{verb=\"keep_alive\",outcome=\"REFUSED\"} 1",
          "holdfast_requests_total{verb=\"cancel\",outcome=\"NOT_FOUND\"} 1",
          "holdfast_requests_total{verb=\"break\",outcome=\"OVERLOADED\"} 1",
          "holdfast_requests_total{verb=\"check_token\",outcome=\"OK\"} 1",
          "holdfast_requests_total{verb=\"get_status\",outcome=\"OK\"} 1",
          "holdfast_token_checks_total{verdict=\"CURRENT\"} 0",
          "holdfast_token_checks_total{verdict=\"OLD\"} 1",
          "holdfast_front_denied_total{front=\"grpc\"} 1",
          "holdfast_front_turned_away_total{front=\"http\"} 1"});
}

TEST(TtlAdviceTest, AddsUpWhatCanGoWrong) {
  Config config;
  config.ttl_longest_pause = Seconds(10);
  config.ttl_failover = Seconds(4);
  config.ttl_recovery = Seconds(3);
  config.ttl_network_p99 = Millis(500);
  config.ttl_clock_error = Millis(500);
  EXPECT_EQ(RecommendedTtlMin(config), Seconds(30));
  config.ttl_clock_error += Duration(1);
  EXPECT_EQ(RecommendedTtlMin(config), Seconds(30) + Millis(1)) << "rounded up";
  config.ttl_longest_pause = config.ttl_failover = config.ttl_recovery = config.ttl_network_p99 =
      config.ttl_clock_error = {};
  EXPECT_EQ(RecommendedTtlMin(config), Duration{});
  EXPECT_LT(RecommendedTtlMin(Config{}), Seconds(5)) << "of the defaults";
}

}  // namespace
}  // namespace holdfast::server
