// For tests of the state machines: a source of bits from a seed, and a stage on which one machine
// is driven by hand.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "client/call.h"
#include "client/machine.h"
#include "client/seeded_random.h"

namespace holdfast::client {

inline Failure NothingDone(Duration retry_after = {}) {
  return Failure{FailureKind::kNothingDone, MakeError(ErrorCode::kUnavailable, "refused"),
                 retry_after};
}
inline Failure Unknown() {
  return Failure{FailureKind::kUnknown, MakeError(ErrorCode::kUnknownOutcome, "no answer"), {}};
}
inline Failure Final(ErrorCode code = ErrorCode::kPermissionDenied) {
  return Failure{FailureKind::kFinal, MakeError(code, "no"), {}};
}

// Time starts at 1000 s. What the machine sends is kept in `sent`, oldest first, until it is
// answered.
class Stage {
 public:
  explicit Stage(std::size_t endpoints = 1) : shared(random, endpoints) {}

  void Play(Machine& played) {
    machine = &played;
    Advance();
  }
  void Advance() { machine->Advance(now, sent); }
  // Wakes the machine whenever it asks for it.
  void PassTo(BootTime until) {
    while (machine->NextWake() <= until) {
      ASSERT_LT(++wakes_, 10'000) << "the machine does not come to rest";
      now = std::max(now, machine->NextWake());
      Advance();
    }
    now = until;
    Advance();
  }
  void Pass(Duration duration) { PassTo(now + duration); }

  template <typename T>
  const T* Peek() const {
    return sent.empty() ? nullptr : std::get_if<T>(&sent.front().request);
  }
  Outgoing Pop() {
    Outgoing oldest = sent.front();
    sent.erase(sent.begin());
    return oldest;
  }
  // Ends the oldest attempt.
  void Reply(const holdfast::client::Reply& reply) { ReplyTo(Pop().attempt.id, reply); }
  void ReplyTo(AttemptId attempt, const holdfast::client::Reply& reply) {
    machine->OnReply(attempt, reply, now);
    Advance();
  }
  void Fail(const Failure& failure) { FailAttempt(Pop().attempt.id, failure); }
  void FailAttempt(AttemptId attempt, const Failure& failure) {
    machine->OnFailure(attempt, failure, now);
    Advance();
  }

  SeededRandom random{1};
  CallShared shared;
  BootTime now{Seconds(1000)};
  std::vector<Outgoing> sent;
  Machine* machine = nullptr;

 private:
  int wakes_ = 0;
};

inline AcquireResult Granted(Duration remaining = Seconds(30), bool provisional = false,
                             Duration ttl = Seconds(30)) {
  AcquireResult result;
  Grant grant;
  grant.lease_id = "lease-1";
  grant.fencing_token = 7;
  grant.ttl = ttl;
  grant.remaining = remaining;
  grant.provisional = provisional;
  result.outcome = grant;
  return result;
}
inline AcquireResult Refused(RefusalCode code) {
  AcquireResult result;
  Refusal refusal;
  refusal.code = code;
  result.outcome = refusal;
  return result;
}
inline RenewResult RenewedFor(Duration remaining = Seconds(30), Duration ttl = Seconds(30)) {
  RenewResult result;
  result.outcome = Renewed{ttl, remaining};
  return result;
}
inline RenewResult NotRenewedBecause(Cause cause, Duration remaining = {}) {
  RenewResult result;
  result.outcome = NotRenewed{cause, remaining, "maintenance"};
  return result;
}
inline ReleaseResult ReleasedIs(bool released, Cause cause = Cause::kUnspecified) {
  return ReleaseResult{"r", released, cause};
}
inline CancelResult CancelledAs(CancelOutcome outcome) {
  return CancelResult{"r", outcome};
}

}  // namespace holdfast::client
