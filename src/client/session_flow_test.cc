#include "client/session_flow.h"

#include <memory>

#include <gtest/gtest.h>

#include "client/test_stage.h"

namespace holdfast::client {
namespace {

OpenSessionResult Opened(Duration remaining = Seconds(30)) {
  OpenSessionResult result;
  result.outcome = SessionOpened{"session-1", "fp", Seconds(30), remaining};
  return result;
}
KeepAliveResult Alive(Duration remaining = Seconds(30), std::uint64_t revocations = 0) {
  KeepAliveResult result;
  result.revocations = revocations;
  result.alive = true;
  result.remaining = remaining;
  return result;
}
KeepAliveResult Dead(Cause cause) {
  KeepAliveResult result;
  result.cause = cause;
  return result;
}

constexpr Duration kMargin = Millis(1500);  // 5 % of the ttl of 30 s

struct SessionTest : ::testing::Test {
  SessionFlow& Open() {
    SessionGoal goal;
    goal.open.owner = "o";
    goal.jeopardy = Seconds(20);
    session = std::make_shared<SessionFlow>(
        stage.shared, goal, FlowOptions{},
        [this](const SessionUpdate& update) {
          if (states.empty() || states.back() != update.state) {
            states.push_back(update.state);
          }
        },
        stage.now);
    stage.Play(*session);
    return *session;
  }
  // Safe, with one hold, and the session on the stage.
  void OpenWithHold(Duration stop_time = {}) {
    Open();
    stage.Reply(Opened());
    LockGoal goal;
    goal.acquire.resource = "r";
    goal.acquire.session_id = "session-1";
    goal.stop_time = stop_time;
    flow = std::make_unique<LockFlow>(
        stage.shared, goal, FlowOptions{}, session,
        [this](const LockUpdate& update) {
          if (lock_states.empty() || lock_states.back() != update.state) {
            lock_states.push_back(update.state);
          }
        },
        stage.now);
    std::vector<Outgoing> out;
    flow->Advance(stage.now, out);
    flow->OnReply(out.at(0).attempt.id, Granted(), stage.now);
    EXPECT_EQ(flow->current().state, LockState::kHeld);
  }
  std::vector<Outgoing> AdvanceFlow() {
    std::vector<Outgoing> out;
    flow->Advance(stage.now, out);
    return out;
  }
  // To the local deadline, every keepalive unanswered.
  void LetItMissItsDeadline() {
    const BootTime deadline = session->current().deadline;
    while (session->current().state == SessionState::kSafe) {
      if (!stage.sent.empty()) {
        stage.Fail(Unknown());
      }
      stage.PassTo(std::min(session->NextWake(), deadline));
    }
    EXPECT_EQ(stage.now, deadline);
  }
  SessionState state() const { return session->current().state; }

  Stage stage;
  std::shared_ptr<SessionFlow> session;
  std::unique_ptr<LockFlow> flow;
  std::vector<SessionState> states;
  std::vector<LockState> lock_states;
};

TEST_F(SessionTest, ItIsKeptAliveAtAThirdOfTheTtl) {
  Open();
  stage.Reply(Opened());
  for (int i = 0; i < 5; ++i) {
    const BootTime last = stage.now;
    stage.PassTo(session->NextWake());
    EXPECT_LE(stage.now - last, Seconds(10));
    EXPECT_GE(stage.now - last, Seconds(9));
    ASSERT_NE(stage.Peek<KeepAliveRequest>(), nullptr);
    EXPECT_EQ(stage.Peek<KeepAliveRequest>()->session_id, "session-1");
    stage.Reply(Alive());
    EXPECT_EQ(session->current().deadline, stage.now + Seconds(30) - kMargin);
  }
  EXPECT_EQ(states, std::vector<SessionState>{SessionState::kSafe});
}

TEST_F(SessionTest, OneKeepaliveRenewsItsHolds) {
  OpenWithHold();
  for (int i = 0; i < 5; ++i) {
    stage.PassTo(session->NextWake());
    EXPECT_TRUE(AdvanceFlow().empty()) << "the hold asks for nothing itself";
    stage.Reply(Alive());
    EXPECT_EQ(flow->current().deadline, stage.now + Seconds(30) - kMargin);
    EXPECT_EQ(flow->current().deadline, session->current().deadline);
  }
}

TEST_F(SessionTest, AHoldWhoseSessionIsNotKeptAliveAsksForItself) {
  OpenWithHold();
  const BootTime granted = stage.now;
  stage.now = flow->NextWake();
  EXPECT_EQ(stage.now, granted + Seconds(20));
  const std::vector<Outgoing> out = AdvanceFlow();
  ASSERT_EQ(out.size(), 1U);
  EXPECT_TRUE(std::holds_alternative<RenewRequest>(out[0].request));
}

TEST_F(SessionTest, ARevocationOnTheSessionMakesEachHoldAskAndNoKeepaliveRenewsItUntilThen) {
  OpenWithHold();
  const BootTime granted = stage.now;
  stage.PassTo(session->NextWake());
  stage.Reply(Alive(Seconds(30), 1));
  EXPECT_EQ(flow->current().deadline, granted + Seconds(30) - kMargin) << "it may be the one";
  std::vector<Outgoing> out = AdvanceFlow();
  ASSERT_EQ(out.size(), 1U);
  ASSERT_TRUE(std::holds_alternative<RenewRequest>(out[0].request));
  stage.PassTo(session->NextWake());
  stage.Reply(Alive(Seconds(30), 1));
  EXPECT_EQ(flow->current().deadline, granted + Seconds(30) - kMargin);
  // It was another.
  flow->OnReply(out[0].attempt.id, RenewedFor(Seconds(30)), stage.now);
  stage.PassTo(session->NextWake());
  stage.Reply(Alive(Seconds(30), 1));
  EXPECT_EQ(flow->current().deadline, session->current().deadline);
}

TEST_F(SessionTest, ARenewalThatWasSentBeforeTheRevocationWasKnownAnswersNothing) {
  OpenWithHold();
  const BootTime granted = stage.now;
  stage.now = flow->NextWake();
  std::vector<Outgoing> before = AdvanceFlow();
  ASSERT_EQ(before.size(), 1U);
  stage.Advance();
  stage.Reply(Alive(Seconds(30), 1));
  flow->OnReply(before[0].attempt.id, RenewedFor(Seconds(11)), stage.now);
  const BootTime own = stage.now + Seconds(11) - kMargin;
  EXPECT_EQ(flow->current().deadline, own);
  EXPECT_GT(own, granted + Seconds(30) - kMargin);
  stage.PassTo(session->NextWake());
  stage.Reply(Alive(Seconds(30), 1));
  EXPECT_EQ(flow->current().deadline, own);
}

TEST_F(SessionTest, AFrozenHoldEndsThoughItsSessionIsSafe) {
  OpenWithHold();
  stage.PassTo(session->NextWake());
  stage.Reply(Alive(Seconds(30), 1));
  std::vector<Outgoing> out = AdvanceFlow();
  ASSERT_EQ(out.size(), 1U);
  const BootTime promised = stage.now + Seconds(21);
  flow->OnReply(out[0].attempt.id, NotRenewedBecause(Cause::kHoldLimit, Seconds(21)), stage.now);
  EXPECT_EQ(flow->current().state, LockState::kRevoking);
  while (stage.now < promised - kMargin) {
    EXPECT_TRUE(flow->EnsureHeld(stage.now));
    stage.PassTo(std::min(session->NextWake(), promised - kMargin));
    if (!stage.sent.empty()) {
      stage.Reply(Alive(Seconds(30), 1));
    }
  }
  EXPECT_FALSE(flow->EnsureHeld(stage.now));
  AdvanceFlow();
  EXPECT_EQ(flow->current().state, LockState::kLost);
  EXPECT_EQ(flow->current().cause, Cause::kHoldLimit);
  EXPECT_EQ(state(), SessionState::kSafe);
}

TEST_F(SessionTest, InJeopardyItsHoldsAreLostForGoodAndItMayBecomeSafeAgain) {
  OpenWithHold();
  LetItMissItsDeadline();
  EXPECT_EQ(state(), SessionState::kJeopardy);
  EXPECT_FALSE(flow->EnsureHeld(stage.now));
  EXPECT_EQ(flow->current().state, LockState::kLost);
  EXPECT_EQ(flow->current().cause, Cause::kSessionExpired);
  while (stage.sent.empty()) {
    stage.PassTo(session->NextWake());
  }
  stage.Reply(Alive());
  EXPECT_EQ(state(), SessionState::kSafe);
  EXPECT_FALSE(flow->EnsureHeld(stage.now));
  EXPECT_EQ(flow->current().state, LockState::kLost);
  EXPECT_EQ(states, (std::vector<SessionState>{SessionState::kSafe, SessionState::kJeopardy,
                                               SessionState::kSafe}));
  EXPECT_EQ(lock_states, (std::vector<LockState>{LockState::kHeld, LockState::kLost}));
}

TEST_F(SessionTest, AKeepaliveThatComesAfterTheDeadlineDoesNotSaveTheHolds) {
  OpenWithHold();
  stage.PassTo(session->NextWake());
  const AttemptId keepalive = stage.Pop().attempt.id;
  stage.now = session->current().deadline;  // nobody woke the machines in time
  stage.ReplyTo(keepalive, Alive());
  EXPECT_EQ(state(), SessionState::kSafe);
  EXPECT_EQ(flow->current().state, LockState::kLost);
  EXPECT_FALSE(flow->EnsureHeld(stage.now));
}

TEST_F(SessionTest, WhenItIsSafeAgainLostLeasesAreReleasedAfterTheirWorkHadTimeToStop) {
  OpenWithHold(Seconds(5));
  const BootTime hold_deadline = flow->current().deadline;
  EXPECT_EQ(hold_deadline, session->current().deadline - Seconds(5));
  stage.PassTo(session->NextWake());
  const AttemptId keepalive = stage.Pop().attempt.id;
  stage.now = hold_deadline;
  AdvanceFlow();
  EXPECT_EQ(flow->current().state, LockState::kLost);
  stage.ReplyTo(keepalive, Alive());
  ASSERT_NE(stage.Peek<KeepAliveRequest>(), nullptr);  // that one was slow: the next is due
  stage.Reply(Alive());
  EXPECT_TRUE(stage.sent.empty());
  stage.Pass(Seconds(5) - Duration(1));
  EXPECT_TRUE(stage.sent.empty());
  stage.Pass(Duration(1));
  ASSERT_NE(stage.Peek<ReleaseRequest>(), nullptr);
  EXPECT_EQ(stage.Peek<ReleaseRequest>()->lease_id, "lease-1");
  stage.Reply(ReleasedIs(true));
  stage.Pass(Seconds(1));
  EXPECT_TRUE(stage.sent.empty());
}

TEST_F(SessionTest, JeopardyEndsAsExpired) {
  OpenWithHold();
  const BootTime promised = session->current().deadline + kMargin;
  LetItMissItsDeadline();
  while (!session->Done()) {
    if (!stage.sent.empty()) {
      stage.Fail(Unknown());
    }
    stage.PassTo(std::min(session->NextWake(), promised + Seconds(20)));
  }
  EXPECT_EQ(stage.now, promised + Seconds(20));
  EXPECT_EQ(state(), SessionState::kExpired);
  EXPECT_EQ(session->current().cause, Cause::kSessionExpired);
  EXPECT_EQ(lock_states, (std::vector<LockState>{LockState::kHeld, LockState::kLost}));
}

TEST_F(SessionTest, TheServicesWordEndsItAtOnce) {
  OpenWithHold();
  stage.PassTo(session->NextWake());
  stage.Reply(Dead(Cause::kSessionExpired));
  EXPECT_EQ(state(), SessionState::kExpired);
  EXPECT_EQ(flow->current().state, LockState::kLost);
  EXPECT_TRUE(session->Done());
  EXPECT_TRUE(stage.sent.empty());
}

TEST_F(SessionTest, AGrantThatArrivesAfterItsSessionEndedIsNotHeld) {
  Open();
  stage.Reply(Opened());
  LockGoal goal;
  goal.acquire.resource = "r";
  flow = std::make_unique<LockFlow>(stage.shared, goal, FlowOptions{}, session, LockCallback{},
                                    stage.now);
  std::vector<Outgoing> out;
  flow->Advance(stage.now, out);
  stage.PassTo(session->NextWake());
  stage.Reply(Dead(Cause::kSessionExpired));
  flow->OnReply(out.at(0).attempt.id, Granted(), stage.now);
  EXPECT_FALSE(flow->EnsureHeld(stage.now));
  EXPECT_EQ(flow->current().state, LockState::kNotAcquired);
}

TEST_F(SessionTest, CloseEndsItsHoldsAsReleased) {
  OpenWithHold();
  session->Close(stage.now);
  stage.Advance();
  EXPECT_FALSE(flow->EnsureHeld(stage.now));
  EXPECT_EQ(flow->current().state, LockState::kReleasing);
  ASSERT_NE(stage.Peek<CloseSessionRequest>(), nullptr);
  stage.Fail(NothingDone());
  stage.Pass(Seconds(1));
  CloseSessionResult closed;
  closed.closed = true;
  stage.Reply(closed);
  EXPECT_EQ(state(), SessionState::kClosed);
  EXPECT_EQ(flow->current().state, LockState::kReleased);
  stage.Pass(Seconds(100));
  EXPECT_TRUE(stage.sent.empty());
}

TEST_F(SessionTest, OpeningRetriesWithTheSameRequestId) {
  Open();
  const std::string id = stage.Peek<OpenSessionRequest>()->request_id;
  stage.Fail(Unknown());
  stage.Pass(Seconds(1));
  ASSERT_NE(stage.Peek<OpenSessionRequest>(), nullptr);
  EXPECT_EQ(stage.Peek<OpenSessionRequest>()->request_id, id);
  EXPECT_EQ(stage.Peek<OpenSessionRequest>()->context->sequence, 1U);
  stage.Reply(Opened());
  EXPECT_EQ(state(), SessionState::kSafe);
  EXPECT_EQ(stage.shared.identity.answered_below(), 2U);
}

TEST_F(SessionTest, ARefusalOrAnErrorMeansNotOpened) {
  Open();
  OpenSessionResult refused;
  refused.outcome = SessionRefused{SessionRefusal::kSessionLimit, "100"};
  stage.Reply(refused);
  EXPECT_EQ(state(), SessionState::kNotOpened);
  EXPECT_EQ(session->current().refused->reason, SessionRefusal::kSessionLimit);
  Open();
  stage.Fail(Final());
  EXPECT_EQ(state(), SessionState::kNotOpened);
  EXPECT_EQ(session->current().error->code, ErrorCode::kPermissionDenied);
}

TEST_F(SessionTest, ClosedWhileOpeningItIsClosedAsSoonAsItIsOpen) {
  Open();
  session->Close(stage.now);
  stage.Advance();
  stage.Reply(Opened());
  EXPECT_EQ(state(), SessionState::kClosing);
  EXPECT_NE(stage.Peek<CloseSessionRequest>(), nullptr);
}

}  // namespace
}  // namespace holdfast::client
