#include "server/telemetry.h"

#include <string>
#include <utility>

#include <gtest/gtest.h>

namespace holdfast::server {
namespace {

constexpr auto kAnyNamespace = [](const std::string& /*name*/) { return true; };

std::uint64_t Of(const CauseCounts& counts, core::Cause cause) {
  return counts[static_cast<std::size_t>(cause)];
}

core::Event EventOf(core::EventKind kind, core::Cause cause, core::Token token = 0) {
  core::Event event;
  event.kind = kind;
  event.cause = cause;
  event.token = token;
  event.name_space = "jobs";
  event.resource = "a";
  return event;
}

core::Granted GrantOf(core::Token token, Duration ttl) {
  core::Granted granted;
  granted.token = token;
  granted.ttl = ttl;
  return granted;
}

class TelemetryTest : public testing::Test {
 protected:
  // Applies a batch of one command.
  template <typename Body>
  void Apply(Body&& body, core::Outcome&& outcome, std::vector<core::Event>&& events = {}) {
    core::Batch batch;
    batch.index = ++index_;
    batch.time = Timestamp(Seconds(static_cast<std::int64_t>(index_)));
    batch.commands.push_back({"alice", "jobs", std::forward<Body>(body)});
    core::Applied applied;
    applied.outcomes.push_back(std::move(outcome));
    applied.events = std::move(events);
    telemetry_.OnApplied(batch, applied);
  }

  Telemetry telemetry_{{.hot_resources = 8, .recommended_ttl_min = Seconds(5)}};
  std::uint64_t index_ = 0;
};

TEST_F(TelemetryTest, CountsHowThingsBeganAndEnded) {
  core::Event late = EventOf(core::EventKind::kEnded, core::Cause::kExpired, 1);
  late.late = Millis(300);
  core::Event released = EventOf(core::EventKind::kEnded, core::Cause::kReleased, 2);
  Apply(core::Release{}, core::Released{true, core::Cause::kReleased},
        {EventOf(core::EventKind::kGranted, core::Cause::kAcquired, 3), late, released,
         EventOf(core::EventKind::kWaiterLeft, core::Cause::kWaitTimedOut),
         EventOf(core::EventKind::kWaiting, core::Cause::kNone),
         EventOf(core::EventKind::kSessionOpened, core::Cause::kNone),
         EventOf(core::EventKind::kSessionEnded, core::Cause::kSessionExpired),
         EventOf(core::EventKind::kRevoking, core::Cause::kBroken)});
  const TelemetryCounts counts = telemetry_.Counts();
  EXPECT_EQ(Of(counts.grants, core::Cause::kAcquired), 1U);
  EXPECT_EQ(Of(counts.leases_ended, core::Cause::kExpired), 1U);
  EXPECT_EQ(Of(counts.leases_ended, core::Cause::kReleased), 1U);
  EXPECT_EQ(Of(counts.waiters_left, core::Cause::kWaitTimedOut), 1U);
  EXPECT_EQ(Of(counts.sessions_ended, core::Cause::kSessionExpired), 1U);
  EXPECT_EQ(counts.waits, 1U);
  EXPECT_EQ(counts.sessions_opened, 1U);
  EXPECT_EQ(counts.revocations, 1U);
  EXPECT_DOUBLE_EQ(counts.lease_overrun_seconds.sum, 0.3) << "not of what was released";
}

TEST_F(TelemetryTest, CountsFailedRenewalsByCause) {
  core::NotRenewed failed;
  failed.cause = core::Cause::kHoldLimit;
  Apply(core::Renew{}, core::Outcome(std::move(failed)));
  Apply(core::Renew{}, core::Renewed{});
  Apply(core::KeepAlive{}, core::SessionKept{false, {}, core::Cause::kSessionExpired});
  Apply(core::KeepAlive{}, core::SessionKept{true, Seconds(1), core::Cause::kNone});
  const TelemetryCounts counts = telemetry_.Counts();
  EXPECT_EQ(Of(counts.renewals_failed, core::Cause::kHoldLimit), 1U);
  EXPECT_EQ(Of(counts.renewals_failed, core::Cause::kNone), 0U);
  EXPECT_EQ(Of(counts.keepalives_failed, core::Cause::kSessionExpired), 1U);
  EXPECT_EQ(Of(counts.keepalives_failed, core::Cause::kNone), 0U);
}

TEST_F(TelemetryTest, CountsEachShortGrantOnce) {
  const auto granted = [](core::Token token) {
    return std::vector<core::Event>{
        EventOf(core::EventKind::kEnded, core::Cause::kExpired, token - 1),
        EventOf(core::EventKind::kGranted, core::Cause::kAcquired, token)};
  };
  testing::internal::CaptureStderr();
  Apply(core::Acquire{}, GrantOf(7, Seconds(4)), granted(7));
  Apply(core::Acquire{}, GrantOf(7, Seconds(4)));  // the answer again
  Apply(core::Acquire{}, GrantOf(8, Seconds(5)), granted(8));
  Apply(core::Acquire{}, GrantOf(9, Seconds(1)), granted(9));
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_EQ(telemetry_.Counts().short_ttl_grants, 2U);
  EXPECT_NE(log.find("namespace=jobs resource=a"), std::string::npos) << log;
  EXPECT_EQ(log.find("recommended_ms"), log.rfind("recommended_ms")) << "a line a minute";
}

TEST_F(TelemetryTest, ShowsHotResources) {
  core::Acquire acquire;
  acquire.resource = "orders/1";
  Apply(core::Acquire(acquire), core::Queued{1, 1, 1});
  core::Renew renew;
  renew.resource = "orders/1";
  Apply(core::Renew(renew), core::Renewed{});
  Apply(core::KeepAlive{}, core::SessionKept{true, {}, core::Cause::kNone});
  const HotResourcesView view = telemetry_.Hot(10, kAnyNamespace);
  ASSERT_EQ(view.resources.size(), 1U);
  EXPECT_EQ(view.resources[0].name_space, "jobs");
  EXPECT_EQ(view.resources[0].resource, "orders/1");
  EXPECT_EQ(view.resources[0].operations, 2U);
  EXPECT_EQ(view.resources[0].acquires, 1U);
  EXPECT_EQ(view.resources[0].waits, 1U);
  EXPECT_TRUE(telemetry_.Hot(10, [](const std::string&) { return false; }).resources.empty());
}

}  // namespace
}  // namespace holdfast::server
