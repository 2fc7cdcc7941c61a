// The checkers must object to answers that no planted bug gives: histories written by hand, without
// a state machine.
#include "check/history_checker.h"

#include <string>

#include <gtest/gtest.h>

namespace holdfast::check {
namespace {

Id128 IdOf(std::uint8_t number) {
  Id128 id{};
  id[0] = number;
  return id;
}

// A history of one resource, "a", in which every answer is written down.
class Written {
 public:
  // A grant at once, or out of the queue.
  Written& Granted(std::uint8_t lease, core::Token token) {
    core::Acquire acquire;
    acquire.resource = "a";
    acquire.request_id = "r" + std::to_string(lease);
    acquire.ttl = Seconds(10);
    acquire.lease_id = IdOf(lease);
    core::Granted granted;
    granted.lease_id = IdOf(lease);
    granted.token = token;
    granted.ttl = Seconds(10);
    granted.remaining = Seconds(10);
    Event(core::EventKind::kGranted, core::Cause::kAcquired, lease, token);
    return Command(acquire, granted);
  }
  Written& Queued(std::uint8_t lease, core::WaiterId waiter, std::uint32_t length) {
    core::Acquire acquire;
    acquire.resource = "a";
    acquire.request_id = "r" + std::to_string(lease);
    acquire.ttl = Seconds(10);
    acquire.wait = Seconds(60);
    acquire.lease_id = IdOf(lease);
    return Command(acquire, core::Queued{waiter, 1, length});
  }
  Written& HandedOver(std::uint8_t lease, core::Token token, core::WaiterId waiter) {
    core::Granted granted;
    granted.lease_id = IdOf(lease);
    granted.token = token;
    granted.ttl = Seconds(10);
    granted.remaining = Seconds(5);
    granted.provisional = true;
    Event(core::EventKind::kGranted, core::Cause::kHandedOver, lease, token);
    applied_.resolutions.push_back(core::Resolution{waiter, 1, granted});
    return *this;
  }
  Written& Ended(std::uint8_t lease, core::Token token, core::Cause cause) {
    return Event(core::EventKind::kEnded, cause, lease, token);
  }
  Written& Released(std::uint8_t lease, bool released) {
    return Command(core::Release{"a", IdOf(lease)},
                   core::Released{released, core::Cause::kReleased});
  }
  Written& Renewed(std::uint8_t lease, Duration remaining) {
    return Command(core::Renew{"a", IdOf(lease)}, core::Renewed{Seconds(10), remaining});
  }
  Written& Command(core::CommandBody body, core::Outcome outcome) {
    batch_.commands.push_back(core::Command{"p", "default", std::move(body)});
    applied_.outcomes.push_back(std::move(outcome));
    return *this;
  }
  Written& Event(core::EventKind kind, core::Cause cause, std::uint8_t lease, core::Token token) {
    applied_.events.push_back(
        core::Event{kind, cause, token, "default", "a", "p", "", IdOf(lease), {}, {}});
    return *this;
  }
  // Ends the batch; the next begins so much later.
  std::string Seal(Duration step = {}) {
    ++batch_.index;
    const std::string wrong = checker_.Observe(batch_, applied_, /*backlog=*/false);
    batch_.commands.clear();
    batch_.time += step;
    applied_.Clear();
    return wrong;
  }
  // Lets time pass without events.
  std::string Wait(Duration time) {
    std::string wrong = Seal(Seconds(1));
    for (Duration passed = Seconds(1); passed < time && wrong.empty(); passed += Seconds(1)) {
      wrong = Seal(Seconds(1));
    }
    return wrong;
  }

 private:
  core::Batch batch_;
  core::Applied applied_;
  HistoryChecker checker_;
};

std::string RuleOf(const std::string& violation) {
  return violation.substr(0, violation.find(':'));
}

TEST(HistoryChecker, AcceptsAnOrdinaryHistory) {
  Written history;
  EXPECT_EQ(history.Granted(1, 1).Queued(2, 1, 1).Seal(Millis(200)), "");
  EXPECT_EQ(history.Renewed(1, Seconds(10)).Seal(), "");
  EXPECT_EQ(
      history.Ended(1, 1, core::Cause::kReleased).HandedOver(2, 2, 1).Released(1, true).Seal(), "");
}

TEST(HistoryChecker, TwoHoldersAtOnce) {
  EXPECT_EQ(RuleOf(Written().Granted(1, 1).Granted(2, 2).Seal()), "I1");
}

TEST(HistoryChecker, TokensMustRiseAlsoAfterARelease) {
  Written history;
  EXPECT_EQ(history.Granted(1, 5).Seal(), "");
  EXPECT_EQ(history.Ended(1, 5, core::Cause::kReleased).Released(1, true).Seal(), "");
  EXPECT_EQ(RuleOf(history.Granted(2, 5).Seal()), "I2");
}

TEST(HistoryChecker, ARecoveryRaisesTheFloorAndBlocks) {
  Written history;
  EXPECT_EQ(history.Command(core::RecoverState{100, Seconds(3)}, core::Done{}).Seal(Seconds(1)),
            "");
  EXPECT_EQ(RuleOf(history.Granted(1, 101).Seal()), "I2");
  Written later;
  EXPECT_EQ(later.Command(core::RecoverState{100, Millis(500)}, core::Done{}).Seal(Seconds(1)), "");
  EXPECT_EQ(RuleOf(later.Granted(1, 100).Seal()), "I2");
}

TEST(HistoryChecker, AReleaseThatNobodyAskedFor) {
  Written history;
  EXPECT_EQ(history.Granted(1, 1).Seal(), "");
  EXPECT_EQ(RuleOf(history.Ended(1, 1, core::Cause::kReleased).Seal()), "I4");
}

TEST(HistoryChecker, AReleaseThatDidNotHappen) {
  Written history;
  EXPECT_EQ(history.Granted(1, 1).Seal(), "");
  EXPECT_EQ(RuleOf(history.Released(1, true).Seal()), "I4");
}

TEST(HistoryChecker, ARenewalOfALeaseThatIsOver) {
  Written history;
  EXPECT_EQ(history.Granted(1, 1).Seal(), "");
  EXPECT_EQ(history.Ended(1, 1, core::Cause::kReleased).Released(1, true).Seal(), "");
  EXPECT_EQ(RuleOf(history.Renewed(1, Seconds(10)).Seal()), "I4");
}

TEST(HistoryChecker, ASecondGrantForOneRequest) {
  Written history;
  EXPECT_EQ(history.Granted(1, 1).Seal(), "");
  EXPECT_EQ(history.Ended(1, 1, core::Cause::kReleased).Released(1, true).Seal(), "");
  core::Acquire again;
  again.resource = "a";
  again.request_id = "r1";
  again.ttl = Seconds(10);
  again.lease_id = IdOf(2);
  core::Granted granted;
  granted.lease_id = IdOf(2);
  granted.token = 2;
  granted.ttl = Seconds(10);
  granted.remaining = Seconds(10);
  history.Event(core::EventKind::kGranted, core::Cause::kAcquired, 2, 2);
  EXPECT_EQ(RuleOf(history.Command(again, granted).Seal()), "I6");
}

TEST(HistoryChecker, OtherParametersUnderAKnownId) {
  Written history;
  EXPECT_EQ(history.Granted(1, 1).Seal(), "");
  core::Acquire again;
  again.resource = "a";
  again.request_id = "r1";
  again.ttl = Seconds(11);
  again.lease_id = IdOf(2);
  core::Granted granted;
  granted.lease_id = IdOf(1);
  granted.token = 1;
  granted.remaining = Seconds(10);
  EXPECT_EQ(RuleOf(history.Command(again, granted).Seal()), "I6");
}

TEST(HistoryChecker, AnEndBeforeThePromise) {
  for (const core::Cause cause : {core::Cause::kExpired, core::Cause::kBroken,
                                  core::Cause::kSessionClosed, core::Cause::kCancelled}) {
    Written history;
    EXPECT_EQ(history.Granted(1, 1).Seal(Seconds(1)), "");
    EXPECT_EQ(RuleOf(history.Ended(1, 1, cause).Seal()), "I7") << core::CauseName(cause);
  }
}

TEST(HistoryChecker, APromiseIsWhatTheLatestAnswerSaid) {
  Written history;
  EXPECT_EQ(history.Granted(1, 1).Wait(Seconds(9)), "");
  EXPECT_EQ(history.Renewed(1, Seconds(10)).Wait(Seconds(9)), "");
  EXPECT_EQ(RuleOf(history.Ended(1, 1, core::Cause::kExpired).Seal()), "I7");
}

TEST(HistoryChecker, ALeaseThatOutlivesItsDeadline) {
  Written history;
  EXPECT_EQ(history.Granted(1, 1).Wait(Seconds(10)), "");
  EXPECT_EQ(history.Seal(Duration(1)), "") << "its last moment";
  EXPECT_EQ(RuleOf(history.Seal()), "I7");
}

TEST(HistoryChecker, AnEpochAllowsOneGraceMore) {
  Written history;
  EXPECT_EQ(history.Granted(1, 1).Wait(Seconds(9)), "");
  EXPECT_EQ(history.Command(core::EpochStart{2, Seconds(3)}, core::Done{}).Wait(Seconds(4)), "");
  EXPECT_EQ(history.Seal(Duration(1)), "");
  EXPECT_EQ(RuleOf(history.Seal()), "I7");
}

TEST(HistoryChecker, AJumpOfStateTime) {
  Written history;
  EXPECT_EQ(history.Seal(Seconds(2)), "");
  EXPECT_EQ(RuleOf(history.Seal()), "I7");
}

TEST(HistoryChecker, AQueueBeyondItsLimit) {
  EXPECT_EQ(RuleOf(Written().Granted(1, 1).Queued(2, 1, 1001).Seal()), "I9");
}

TEST(HistoryChecker, ALaterWaiterBeforeAnEarlierOne) {
  Written history;
  EXPECT_EQ(history.Granted(1, 1).Queued(2, 1, 1).Queued(3, 2, 2).Seal(), "");
  EXPECT_EQ(
      RuleOf(
          history.Ended(1, 1, core::Cause::kReleased).HandedOver(3, 2, 2).Released(1, true).Seal()),
      "I9");
}

TEST(HistoryChecker, AnAnswerToNobody) {
  Written history;
  EXPECT_EQ(history.Granted(1, 1).Queued(2, 1, 1).Seal(), "");
  EXPECT_EQ(
      RuleOf(
          history.Ended(1, 1, core::Cause::kReleased).HandedOver(2, 2, 7).Released(1, true).Seal()),
      "I9");
}

TEST(HistoryChecker, AGrantThatNobodyIsTold) {
  Written history;
  EXPECT_EQ(history.Granted(1, 1).Queued(2, 1, 1).Seal(), "");
  history.Ended(1, 1, core::Cause::kReleased)
      .Released(1, true)
      .Event(core::EventKind::kGranted, core::Cause::kHandedOver, 2, 2);
  EXPECT_EQ(RuleOf(history.Seal()), "I9");
}

TEST(HistoryChecker, ALockDelayThatIsNotKept) {
  Written history;  // "default" has a lock-delay of 10 s
  EXPECT_EQ(history.Granted(1, 1).Wait(Seconds(10)), "");
  EXPECT_EQ(history.Seal(Millis(100)), "");
  EXPECT_EQ(history.Ended(1, 1, core::Cause::kExpired).Wait(Seconds(9)), "");
  EXPECT_NE(history.Granted(2, 2).Seal(), "");
}

}  // namespace
}  // namespace holdfast::check
