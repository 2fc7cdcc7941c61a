#include "client/lock_flow.h"

#include <gtest/gtest.h>

#include "client/held_lease.h"
#include "client/test_stage.h"

namespace holdfast::client {
namespace {

// A lock flow up to and after its grant; the hold is inside.
struct LockStage {
  explicit LockStage(std::size_t endpoints) : stage(endpoints) {}

  LockFlow& Start(Duration wait = {}, Duration stop_time = {}) {
    LockGoal goal;
    goal.acquire.resource = "r";
    goal.acquire.owner = "o";
    goal.acquire.wait = wait;
    goal.stop_time = stop_time;
    flow.emplace(
        stage.shared, goal, FlowOptions{}, nullptr,
        [this](const LockUpdate& update) {
          if (states.empty() || states.back() != update.state) {
            states.push_back(update.state);
          }
        },
        stage.now);
    stage.Play(*flow);
    return *flow;
  }
  LockFlow& StartHeld(Duration stop_time = {}) {
    Start({}, stop_time);
    stage.Reply(Granted());
    EXPECT_EQ(flow->current().state, LockState::kHeld);
    return *flow;
  }
  bool Held() const { return flow->EnsureHeld(stage.now); }
  LockState state() const { return flow->current().state; }
  std::string RequestIdOf(const Outgoing& outgoing) {
    return std::get<AcquireRequest>(outgoing.request).request_id;
  }

  Stage stage;
  std::optional<LockFlow> flow;
  std::vector<LockState> states;
};

struct HoldTest : ::testing::Test, LockStage {
  HoldTest() : LockStage(1) {}
};

TEST_F(HoldTest, IsHeldStrictlyBeforeTheLocalDeadlineAndLostOnce) {
  const BootTime sent = stage.now;
  Start({}, Seconds(2));
  stage.now += Millis(500);  // the reply is slow; the deadline counts from the send
  stage.Reply(Granted());
  const BootTime deadline = sent + Seconds(30) - Millis(1500) - Seconds(2);
  EXPECT_EQ(flow->current().deadline, deadline);
  EXPECT_TRUE(Held());
  EXPECT_TRUE(flow->EnsureHeld(deadline - Duration(1)));
  EXPECT_FALSE(flow->EnsureHeld(deadline));  // also before anybody called Advance
  stage.PassTo(sent + Seconds(11));
  stage.sent.clear();  // the renewal is never answered
  stage.PassTo(deadline);
  EXPECT_EQ(state(), LockState::kLost);
  EXPECT_EQ(flow->current().cause, Cause::kExpired);
  stage.Pass(Seconds(100));
  EXPECT_EQ(states, (std::vector<LockState>{LockState::kHeld, LockState::kLost}));
  EXPECT_TRUE(flow->Done());
}

TEST_F(HoldTest, RenewsAtAThirdOfTheTtlForEver) {
  StartHeld();
  for (int i = 0; i < 20; ++i) {
    const BootTime sent_last = stage.now;
    EXPECT_TRUE(stage.sent.empty());
    stage.PassTo(flow->NextWake());
    const Duration third = Seconds(10);
    EXPECT_LE(stage.now - sent_last, third);
    EXPECT_GE(stage.now - sent_last, third - third / 10);
    ASSERT_NE(stage.Peek<RenewRequest>(), nullptr);
    EXPECT_EQ(stage.Peek<RenewRequest>()->lease_id, "lease-1");
    EXPECT_LE(stage.sent.front().attempt.deadline, stage.now + Seconds(3));  // far below the ttl
    stage.Reply(RenewedFor());
    EXPECT_EQ(flow->current().deadline, stage.now + Seconds(30) - Millis(1500));
  }
  EXPECT_EQ(states, std::vector<LockState>{LockState::kHeld});
}

TEST_F(HoldTest, ADelayedRenewalCountsFromItsOwnSend) {
  StartHeld();
  stage.PassTo(flow->NextWake());
  const BootTime first = stage.now;
  stage.now += Seconds(3);
  const AttemptId lost = stage.Pop().attempt.id;
  stage.FailAttempt(lost, Unknown());
  const BootTime second = stage.now;
  ASSERT_EQ(stage.sent.size(), 1U);  // at once
  stage.now += Seconds(2);
  stage.Reply(RenewedFor());
  EXPECT_EQ(flow->current().deadline, second + Seconds(30) - Millis(1500));
  EXPECT_NE(first, second);
}

TEST_F(HoldTest, ARenewalThatIsRefusedByAnErrorIsTriedUntilTheDeadline) {
  StartHeld();
  int tries = 0;
  while (state() == LockState::kHeld) {
    stage.PassTo(flow->NextWake());
    if (!stage.sent.empty()) {
      ++tries;
      stage.Fail(Final(ErrorCode::kUnauthenticated));
    }
  }
  EXPECT_EQ(state(), LockState::kLost);
  EXPECT_GT(tries, 5);
  EXPECT_LT(tries, 50);
  EXPECT_EQ(flow->current().error->code, ErrorCode::kUnauthenticated);
}

TEST_F(HoldTest, ARenewalAnsweredNotRenewedEndsIt) {
  for (const Cause cause :
       {Cause::kExpired, Cause::kBroken, Cause::kNeverHeld, Cause::kSessionExpired}) {
    StartHeld();
    stage.PassTo(flow->NextWake());
    stage.Reply(NotRenewedBecause(cause));
    EXPECT_EQ(state(), LockState::kLost);
    EXPECT_EQ(flow->current().cause, cause);
    EXPECT_FALSE(Held());
    EXPECT_TRUE(stage.sent.empty());  // a lease that was in use is not released for its holder
  }
}

TEST_F(HoldTest, RevokingAndHoldLimitStayValidForTheRemainingTimeWithoutRenewals) {
  struct Case {
    Cause said;
    Cause at_end;
  };
  for (const Case& test :
       {Case{Cause::kRevoking, Cause::kBroken}, Case{Cause::kHoldLimit, Cause::kHoldLimit}}) {
    StartHeld();
    stage.PassTo(flow->NextWake());
    const BootTime promised = stage.now + Seconds(22);
    stage.Reply(NotRenewedBecause(test.said, Seconds(22)));
    EXPECT_EQ(state(), LockState::kRevoking);
    EXPECT_EQ(flow->current().cause, test.said);
    EXPECT_EQ(flow->current().reason, "maintenance");
    EXPECT_TRUE(Held());
    stage.PassTo(promised - Millis(1500) - Duration(1));
    EXPECT_TRUE(Held());
    EXPECT_TRUE(stage.sent.empty());
    stage.Pass(Duration(1));
    EXPECT_FALSE(Held());
    EXPECT_EQ(state(), LockState::kLost);
    EXPECT_EQ(flow->current().cause, test.at_end);
  }
}

TEST_F(HoldTest, NothingIsRenewedAfterRelease) {
  StartHeld();
  stage.PassTo(flow->NextWake());
  const AttemptId renewal = stage.Pop().attempt.id;
  flow->Release(stage.now);
  EXPECT_FALSE(Held());
  stage.Advance();
  ASSERT_NE(stage.Peek<ReleaseRequest>(), nullptr);
  stage.ReplyTo(renewal, RenewedFor());  // it was on its way
  EXPECT_EQ(state(), LockState::kReleasing);
  EXPECT_FALSE(Held());
  stage.Fail(Unknown());
  stage.Pass(Seconds(1));
  ASSERT_NE(stage.Peek<ReleaseRequest>(), nullptr);  // retried
  stage.Reply(ReleasedIs(true));
  EXPECT_EQ(state(), LockState::kReleased);
  stage.Pass(Seconds(100));
  EXPECT_TRUE(stage.sent.empty());
  EXPECT_EQ(states, (std::vector<LockState>{LockState::kHeld, LockState::kReleasing,
                                            LockState::kReleased}));
}

TEST_F(HoldTest, AReleaseOfALeaseThatWasOverSaysSo) {
  StartHeld();
  flow->Release(stage.now);
  stage.Advance();
  stage.Reply(ReleasedIs(false, Cause::kExpired));
  EXPECT_EQ(state(), LockState::kLost);
  EXPECT_EQ(flow->current().cause, Cause::kExpired);
}

TEST_F(HoldTest, AReleaseThatIsNeverAnsweredEndsAsReleasedWithTheError) {
  StartHeld();
  flow->Release(stage.now);
  stage.Advance();
  for (int i = 0; i < 200 && !flow->Done(); ++i) {
    if (!stage.sent.empty()) {
      stage.Fail(Unknown());
    }
    stage.Pass(Seconds(1));
  }
  EXPECT_EQ(state(), LockState::kReleased);
  ASSERT_TRUE(flow->current().error.has_value());
  EXPECT_EQ(flow->current().error->code, ErrorCode::kUnknownOutcome);
}

TEST_F(HoldTest, AReleaseAfterTheLossReturnsAtOnce) {
  StartHeld();
  stage.PassTo(flow->NextWake());
  stage.Reply(NotRenewedBecause(Cause::kExpired));
  flow->Release(stage.now);
  stage.Advance();
  EXPECT_EQ(state(), LockState::kLost);
  EXPECT_TRUE(stage.sent.empty());
}

TEST_F(HoldTest, AnAnswerAfterTheDeadlineFindsItLost) {
  StartHeld();
  const BootTime deadline = flow->current().deadline;
  stage.PassTo(flow->NextWake());
  const AttemptId renewal = stage.Pop().attempt.id;
  stage.now = deadline;  // nobody woke the machine in time
  stage.ReplyTo(renewal, RenewedFor());
  EXPECT_EQ(state(), LockState::kLost);
  EXPECT_EQ(states, (std::vector<LockState>{LockState::kHeld, LockState::kLost}));
}

TEST_F(HoldTest, AProvisionalGrantIsRenewedBeforeItIsHeld) {
  Start(Seconds(20));
  stage.Pass(Seconds(15));
  stage.Reply(Granted(Seconds(5), true));
  EXPECT_EQ(state(), LockState::kConfirming);
  EXPECT_FALSE(Held());
  ASSERT_NE(stage.Peek<RenewRequest>(), nullptr);  // at once
  const BootTime sent = stage.now;
  stage.now += Millis(10);
  stage.Reply(RenewedFor());
  EXPECT_EQ(state(), LockState::kHeld);
  EXPECT_TRUE(Held());
  EXPECT_EQ(flow->current().deadline, sent + Seconds(30) - Millis(1500));
}

TEST_F(HoldTest, AProvisionalGrantThatCannotBeConfirmedIsReleasedAndNeverHeld) {
  Start();
  stage.Reply(Granted(Seconds(5), true));
  while (state() == LockState::kConfirming) {
    if (!stage.sent.empty()) {
      stage.Fail(Unknown());
    }
    stage.PassTo(flow->NextWake());
  }
  EXPECT_EQ(state(), LockState::kNotAcquired);
  EXPECT_EQ(flow->current().cause, Cause::kUnconfirmed);
  ASSERT_FALSE(flow->Done());
  while (stage.Peek<RenewRequest>() != nullptr) {
    stage.Pop();  // on its way when the time was over
  }
  ASSERT_NE(stage.Peek<ReleaseRequest>(), nullptr);
  stage.Reply(ReleasedIs(true));
  EXPECT_TRUE(flow->Done());
  EXPECT_EQ(states, (std::vector<LockState>{LockState::kConfirming, LockState::kNotAcquired}));
}

TEST_F(HoldTest, AGrantThatIsOlderThanItsLeaseIsConfirmedFirst) {
  Start(Seconds(60));
  stage.now += Seconds(40);
  stage.Reply(Granted());  // sent 40 s ago, 30 s remaining: over, as far as we can know
  EXPECT_EQ(state(), LockState::kConfirming);
  EXPECT_FALSE(Held());
  stage.Reply(RenewedFor());
  EXPECT_EQ(state(), LockState::kHeld);
}

struct AcquireTest : ::testing::Test, LockStage {
  AcquireTest() : LockStage(2) {}
};

TEST_F(AcquireTest, RetriesWithTheSameRequestIdOnTheNextEndpoint) {
  Start();
  const Outgoing first = stage.Pop();
  stage.FailAttempt(first.attempt.id, Unknown());
  ASSERT_EQ(stage.sent.size(), 1U);
  EXPECT_NE(stage.sent.front().attempt.endpoint, first.attempt.endpoint);
  EXPECT_EQ(RequestIdOf(stage.sent.front()), RequestIdOf(first));
  EXPECT_EQ(RequestIdOf(first).size(), 32U);
  const auto& context = std::get<AcquireRequest>(first.request).context;
  ASSERT_TRUE(context.has_value());
  EXPECT_EQ(context->sequence, 1U);
  EXPECT_EQ(context->answered_below, 1U);
  stage.Reply(Granted());
  EXPECT_EQ(stage.shared.identity.answered_below(), 2U);
}

TEST_F(AcquireTest, ACallersOwnRequestIdIsNotUnderTheWatermark) {
  LockGoal goal;
  goal.acquire.resource = "r";
  goal.acquire.request_id = "mine";
  LockFlow own(stage.shared, goal, FlowOptions{}, nullptr, {}, stage.now);
  stage.Play(own);
  EXPECT_EQ(RequestIdOf(stage.sent.front()), "mine");
  EXPECT_FALSE(std::get<AcquireRequest>(stage.sent.front().request).context.has_value());
}

TEST_F(AcquireTest, TheAttemptLastsForTheWait) {
  Start(Seconds(60));
  EXPECT_EQ(stage.sent.front().attempt.deadline, stage.now + Seconds(63));
}

TEST_F(AcquireTest, ARefusalIsTheResult) {
  Start();
  stage.Reply(Refused(RefusalCode::kHeld));
  EXPECT_EQ(state(), LockState::kNotAcquired);
  EXPECT_EQ(flow->current().refusal->code, RefusalCode::kHeld);
  EXPECT_TRUE(flow->Done());
}

TEST_F(AcquireTest, SupersededIsTheResultOnlyForTheNewestAttempt) {
  Start(Seconds(30));
  const AttemptId first = stage.Pop().attempt.id;
  stage.FailAttempt(first, Unknown());
  stage.ReplyTo(first, Refused(RefusalCode::kSuperseded));
  EXPECT_FALSE(flow->Done());
  stage.Reply(Refused(RefusalCode::kSuperseded));
  EXPECT_EQ(state(), LockState::kNotAcquired);
}

TEST_F(AcquireTest, NothingDoneNeedsNoCancel) {
  Start();
  while (!flow->Done()) {
    if (!stage.sent.empty()) {
      ASSERT_NE(stage.Peek<AcquireRequest>(), nullptr);
      stage.Fail(NothingDone());
    }
    stage.PassTo(std::min(flow->NextWake(), stage.now + Seconds(1)));
  }
  EXPECT_EQ(flow->current().error->code, ErrorCode::kUnavailable);
  EXPECT_EQ(stage.shared.identity.answered_below(), 2U);
}

// Up to the Cancel after the overall timeout.
void LetItTimeOut(Stage& stage, LockFlow& flow) {
  while (stage.Peek<CancelRequest>() == nullptr) {
    ASSERT_FALSE(flow.Done());
    if (!stage.sent.empty()) {
      stage.Fail(Unknown());
    } else {
      stage.PassTo(flow.NextWake());
    }
  }
}

TEST_F(AcquireTest, WhenTheTimeIsOverACancelUnderTheSameIdMakesSure) {
  struct Case {
    CancelOutcome outcome;
    ErrorCode error;
    std::uint64_t answered_below;
  };
  const Case cases[] = {
      {CancelOutcome::kCancelledBeforeArrival, ErrorCode::kUnavailable, 2},
      {CancelOutcome::kWaiterRemoved, ErrorCode::kUnavailable, 2},
      {CancelOutcome::kProvisionalReleased, ErrorCode::kUnavailable, 2},
      {CancelOutcome::kAlreadyOver, ErrorCode::kUnavailable, 2},
      {CancelOutcome::kNotYours, ErrorCode::kUnknownOutcome, 1},
      {CancelOutcome::kMemoryFull, ErrorCode::kUnknownOutcome, 1},
  };
  for (const Case& test : cases) {
    SCOPED_TRACE(Name(test.outcome));
    LockStage fresh(2);
    LockFlow& tried = fresh.Start();
    const std::string id = fresh.RequestIdOf(fresh.stage.sent.front());
    LetItTimeOut(fresh.stage, tried);
    const auto* cancel = fresh.stage.Peek<CancelRequest>();
    ASSERT_NE(cancel, nullptr);
    EXPECT_EQ(cancel->request_id, id);
    EXPECT_EQ(cancel->owner, "o");
    EXPECT_EQ(cancel->context->sequence, 1U);
    fresh.stage.Reply(CancelledAs(test.outcome));
    EXPECT_TRUE(tried.Done());
    EXPECT_EQ(tried.current().state, LockState::kNotAcquired);
    EXPECT_EQ(tried.current().error->code, test.error);
    EXPECT_EQ(fresh.stage.shared.identity.answered_below(), test.answered_below);
  }
}

TEST_F(AcquireTest, IfTheCancelIsNotAnsweredTheOutcomeIsUnknown) {
  Start();
  LetItTimeOut(stage, *flow);
  while (!flow->Done()) {
    if (!stage.sent.empty()) {
      stage.Fail(Unknown());
    } else {
      stage.PassTo(flow->NextWake());
    }
  }
  EXPECT_EQ(flow->current().error->code, ErrorCode::kUnknownOutcome);
  EXPECT_TRUE(stage.shared.identity.IsUnresolved(flow->current().request_id));
}

TEST_F(AcquireTest, AGrantThatCancelFindsIsFetchedAndReleasedUnused) {
  Start();
  const std::string id = RequestIdOf(stage.sent.front());
  LetItTimeOut(stage, *flow);
  stage.Reply(CancelledAs(CancelOutcome::kStillGranted));
  ASSERT_NE(stage.Peek<AcquireRequest>(), nullptr);
  EXPECT_EQ(RequestIdOf(stage.sent.front()), id);
  stage.Reply(Granted());
  EXPECT_FALSE(Held());
  ASSERT_NE(stage.Peek<ReleaseRequest>(), nullptr);
  stage.Reply(ReleasedIs(true));
  EXPECT_EQ(state(), LockState::kNotAcquired);
  EXPECT_TRUE(flow->Done());
  for (const LockState seen : states) {
    EXPECT_NE(seen, LockState::kHeld);
  }
}

TEST_F(AcquireTest, ALateGrantDuringTheCancelIsReleasedUnused) {
  Start(Seconds(30));
  const AttemptId acquire = stage.Pop().attempt.id;
  flow->Release(stage.now);  // withdrawn by its user while it waits
  stage.Advance();
  ASSERT_NE(stage.Peek<CancelRequest>(), nullptr);
  const AttemptId cancel = stage.Pop().attempt.id;
  stage.ReplyTo(acquire, Granted());
  EXPECT_FALSE(Held());
  ASSERT_NE(stage.Peek<ReleaseRequest>(), nullptr);
  stage.ReplyTo(cancel, CancelledAs(CancelOutcome::kStillGranted));
  EXPECT_EQ(stage.sent.size(), 1U);
  stage.Reply(ReleasedIs(true));
  EXPECT_TRUE(flow->Done());
  for (const LockState seen : states) {
    EXPECT_NE(seen, LockState::kHeld);
  }
}

TEST_F(AcquireTest, WithdrawnByItsUserItIsCancelled) {
  Start(Seconds(30));
  flow->Release(stage.now);
  stage.Advance();
  stage.Pop();
  stage.Reply(CancelledAs(CancelOutcome::kWaiterRemoved));
  EXPECT_EQ(state(), LockState::kNotAcquired);
  EXPECT_EQ(flow->current().refusal->code, RefusalCode::kCancelled);
}

TEST_F(AcquireTest, ACampaignCarriesItsValue) {
  LockGoal goal;
  goal.acquire.resource = "election";
  goal.value = "host:1";
  LockFlow campaign(stage.shared, goal, FlowOptions{}, nullptr, {}, stage.now);
  stage.Play(campaign);
  ASSERT_NE(stage.Peek<CampaignRequest>(), nullptr);
  EXPECT_EQ(stage.Peek<CampaignRequest>()->value, "host:1");
  EXPECT_EQ(stage.Peek<CampaignRequest>()->acquire.resource, "election");
  stage.Reply(Granted());
  EXPECT_EQ(campaign.current().state, LockState::kHeld);
}

}  // namespace
}  // namespace holdfast::client
