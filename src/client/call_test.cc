#include "client/call.h"

#include <gtest/gtest.h>

#include "client/test_stage.h"

namespace holdfast::client {
namespace {

constexpr BootTime kStart{Seconds(1000)};

struct CallTest : ::testing::Test {
  Call Make(const CallOptions& options) { return Call(shared, options, kStart); }

  SeededRandom random{3};
  CallShared shared{random, 3};
};

TEST_F(CallTest, FailuresAreClassified) {
  struct Case {
    const char* name;
    Repeat repeat;
    std::vector<FailureKind> failures;
    ErrorCode expected;
  };
  const Case cases[] = {
      {"nothing done",
       Repeat::kIdempotent,
       {FailureKind::kNothingDone, FailureKind::kNothingDone},
       ErrorCode::kUnavailable},
      {"unknown once is unknown",
       Repeat::kIdempotent,
       {FailureKind::kUnknown, FailureKind::kNothingDone},
       ErrorCode::kUnknownOutcome},
      {"refused", Repeat::kIdempotent, {FailureKind::kFinal}, ErrorCode::kPermissionDenied},
      {"refused after an unknown is unknown",
       Repeat::kIdempotent,
       {FailureKind::kUnknown, FailureKind::kFinal},
       ErrorCode::kUnknownOutcome},
      {"a read is never unknown",
       Repeat::kRead,
       {FailureKind::kUnknown, FailureKind::kUnknown},
       ErrorCode::kUnavailable},
      {"once: not repeated after an unknown",
       Repeat::kOnce,
       {FailureKind::kNothingDone, FailureKind::kUnknown},
       ErrorCode::kUnknownOutcome},
  };
  for (const Case& test : cases) {
    SCOPED_TRACE(test.name);
    Call call = Make({.repeat = test.repeat, .deadline = kStart + Seconds(10)});
    BootTime now = kStart;
    for (const FailureKind kind : test.failures) {
      const auto order = call.Poll(now);
      ASSERT_TRUE(order.has_value());
      const Failure failure = kind == FailureKind::kFinal     ? Final()
                              : kind == FailureKind::kUnknown ? Unknown()
                                                              : NothingDone();
      call.OnFailure(order->id, failure, now);
      now = std::max(now, std::min(call.NextWake(), kStart + Seconds(9)));
    }
    EXPECT_FALSE(call.Poll(kStart + Seconds(10)).has_value());
    ASSERT_TRUE(call.error().has_value());
    EXPECT_EQ(ErrorCodeName(call.error()->code), std::string(ErrorCodeName(test.expected)));
  }
}

TEST_F(CallTest, EveryEndpointGetsOneQuickTryThenPausesGrowAndJitter) {
  Call call = Make(
      {.backoff_first = Millis(100), .backoff_max = Millis(400), .deadline = kStart + Seconds(60)});
  BootTime now = kStart;
  std::vector<std::size_t> endpoints;
  std::vector<Duration> pauses;
  for (int i = 0; i < 7; ++i) {
    const auto order = call.Poll(now);
    ASSERT_TRUE(order.has_value());
    endpoints.push_back(order->endpoint);
    EXPECT_EQ(order->deadline, now + Seconds(3));
    call.OnFailure(order->id, NothingDone(), now);
    pauses.push_back(call.NextWake() - now);
    now = call.NextWake();
  }
  EXPECT_EQ(endpoints, (std::vector<std::size_t>{0, 1, 2, 0, 1, 2, 0}));
  const Duration most[] = {{}, {}, Millis(100), Millis(200), Millis(400), Millis(400), Millis(400)};
  for (std::size_t i = 0; i < 7; ++i) {
    EXPECT_LE(pauses[i], most[i]) << i;
    EXPECT_GE(pauses[i], most[i] / 2) << i;
  }
  EXPECT_NE(pauses[4], pauses[5]);
}

TEST(EndpointSet, TheLeaderIsPreferredUnlessItHasJustFailed) {
  EndpointSet endpoints(3);
  const BootTime begin{Seconds(100)};
  endpoints.Prefer(2, begin);
  EXPECT_EQ(endpoints.current(), 2U);
  endpoints.Failed(2, begin);
  EXPECT_EQ(endpoints.current(), 0U);
  endpoints.Prefer(2, begin + EndpointSet::kAvoided - Millis(1));
  EXPECT_EQ(endpoints.current(), 0U);
  endpoints.Prefer(2, begin + EndpointSet::kAvoided);
  EXPECT_EQ(endpoints.current(), 2U);
}

TEST_F(CallTest, TheServiceMayAskForAPause) {
  Call call = Make({.deadline = kStart + Seconds(60)});
  call.OnFailure(call.Poll(kStart)->id, NothingDone(Seconds(7)), kStart);
  EXPECT_EQ(call.NextWake(), kStart + Seconds(7));
  EXPECT_FALSE(call.Poll(kStart + Seconds(6)).has_value());
}

TEST_F(CallTest, EndsAtOnceWhenNoFurtherAttemptFits) {
  Call call = Make({.deadline = kStart + Seconds(5)});
  call.OnFailure(call.Poll(kStart)->id, NothingDone(Seconds(7)), kStart);
  ASSERT_TRUE(call.error().has_value());
  EXPECT_EQ(call.error()->code, ErrorCode::kUnavailable);
}

TEST_F(CallTest, AnAttemptNeverOutlivesTheCall) {
  Call call = Make({.deadline = kStart + Seconds(1)});
  EXPECT_EQ(call.Poll(kStart)->deadline, kStart + Seconds(1));
}

TEST_F(CallTest, ALateReplyToAnOlderAttemptAnswersWithItsOwnTiming) {
  Call call = Make({.deadline = kStart + Seconds(30)});
  const auto first = call.Poll(kStart);
  call.OnFailure(first->id, Unknown(), kStart + Seconds(3));
  const auto second = call.Poll(kStart + Seconds(3));
  ASSERT_TRUE(second.has_value());
  call.OnFailure(second->id, Unknown(), kStart + Seconds(6));
  const auto third = call.Poll(kStart + Seconds(6));
  ASSERT_TRUE(third.has_value());
  const ReplyTiming timing = call.OnReply(second->id, kStart + Seconds(7));
  EXPECT_TRUE(call.answered());
  EXPECT_EQ(timing.first_sent, kStart);
  EXPECT_EQ(timing.sent, kStart + Seconds(3));
  EXPECT_EQ(timing.received, kStart + Seconds(7));
  call.OnFailure(third->id, Unknown(), kStart + Seconds(8));
  EXPECT_FALSE(call.error().has_value());
}

TEST_F(CallTest, ManyFailingCallsStayWithinTheRetryBudget) {
  std::vector<Call> calls;
  for (int i = 0; i < 200; ++i) {
    calls.push_back(Make({.backoff_first = Millis(10),
                          .backoff_max = Millis(50),
                          .deadline = kStart + Seconds(10)}));
  }
  int attempts = 0;
  for (BootTime now = kStart; now < kStart + Seconds(10); now += Millis(10)) {
    for (Call& call : calls) {
      if (const auto order = call.Poll(now)) {
        ++attempts;
        call.OnFailure(order->id, NothingDone(), now);
      }
    }
  }
  // Each call's first attempt is free; the retries are what the budget held and what it regains.
  EXPECT_LE(attempts, 200 + 2 * RetryBudget::kCapacity + 10 * RetryBudget::kRefillPerSecond);
  EXPECT_GE(attempts, 200 + RetryBudget::kCapacity);
}

TEST_F(CallTest, AnUrgentCallDoesNotWaitForTheBudget) {
  for (int i = 0; i < 1000; ++i) {
    shared.budget.Spend(kStart);
  }
  EXPECT_GT(shared.budget.Reserve(kStart), kStart);
  Call call = Make({.urgent = true, .deadline = kStart + Seconds(10)});
  call.OnFailure(call.Poll(kStart)->id, Unknown(), kStart + Seconds(1));
  EXPECT_EQ(call.NextWake(), kStart + Seconds(1));
}

TEST(RetryBudget, SuccessesEarnRetries) {
  RetryBudget budget;
  const BootTime now = kStart;
  while (budget.Reserve(now) == now) {
  }
  for (int i = 0; i < 20; ++i) {
    budget.Succeeded();
  }
  EXPECT_EQ(budget.Reserve(now), now);
}

TEST(Watermark, RisesOverAnswersOutOfOrder) {
  ClientIdentity identity(Id128{1});
  const auto a = identity.Begin("a", kStart);
  const auto b = identity.Begin("b", kStart);
  const auto c = identity.Begin("c", kStart);
  EXPECT_EQ(a, 1U);
  EXPECT_EQ(identity.answered_below(), a);
  identity.Answered(b);
  EXPECT_EQ(identity.answered_below(), a);
  identity.Answered(a);
  EXPECT_EQ(identity.answered_below(), c);
  identity.Answered(c);
  EXPECT_EQ(identity.answered_below(), c + 1);
  const ClientContext context = identity.Context(c);
  EXPECT_EQ(context.client_id, "01000000000000000000000000000000");
  EXPECT_EQ(context.sequence, c);
  EXPECT_EQ(context.answered_below, c + 1);
}

TEST(Watermark, AnUnresolvedRequestHoldsItBackUntilAskedAgain) {
  ClientIdentity identity(Id128{1});
  const auto a = identity.Begin("a", kStart);
  identity.Unresolved(a, "a", kStart);
  identity.Answered(identity.Begin("b", kStart));
  EXPECT_EQ(identity.answered_below(), a);
  EXPECT_TRUE(identity.IsUnresolved("a"));
  EXPECT_EQ(identity.Begin("a", kStart + Seconds(60)), a);  // the same number
  EXPECT_FALSE(identity.IsUnresolved("a"));
  identity.Answered(a);
  EXPECT_EQ(identity.answered_below(), 3U);
}

TEST(Watermark, AnUnresolvedRequestIsGivenUpWhenTheServiceHasForgottenIt) {
  ClientIdentity identity(Id128{1});
  identity.Unresolved(identity.Begin("a", kStart), "a", kStart);
  const BootTime later = kStart + ClientIdentity::kUnresolvedFor;
  identity.Answered(identity.Begin("b", later - Seconds(1)));
  EXPECT_EQ(identity.answered_below(), 1U);
  identity.Answered(identity.Begin("c", later));
  EXPECT_EQ(identity.answered_below(), 4U);
}

TEST(Watermark, UnresolvedRequestsAreBoundedAndTheOldestIsGivenUpFirst) {
  ClientIdentity identity(Id128{1});
  for (std::size_t i = 0; i <= ClientIdentity::kUnresolvedMax; ++i) {
    const BootTime now = kStart + Millis(static_cast<std::int64_t>(i));
    const std::string id = std::to_string(i);
    identity.Unresolved(identity.Begin(id, now), id, now);
  }
  EXPECT_FALSE(identity.IsUnresolved("0"));
  EXPECT_TRUE(identity.IsUnresolved("1"));
  EXPECT_EQ(identity.answered_below(), 2U);
}

TEST(LeaseDeadline, CountsFromTheSendingOfTheAnsweredAttempt) {
  const ReplyTiming timing{
      .first_sent = kStart, .sent = kStart + Seconds(4), .received = kStart + Seconds(6)};
  const LeasePromise promise = PromiseOf(timing, Seconds(20), Seconds(30));
  EXPECT_EQ(promise.until, kStart + Seconds(24));
  EXPECT_EQ(LocalDeadline(promise, Seconds(2)), kStart + Seconds(24) - Millis(1500) - Seconds(2));
}

}  // namespace
}  // namespace holdfast::client
