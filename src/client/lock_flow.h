// A lock (or a leadership) from the wish to the end: asks with one request id until it is granted,
// refused or out of time; confirms what came out of a queue; keeps it (hold.h); releases it. If the
// time is over and it is not known whether the request was done, or if the wish is withdrawn while
// it is on its way, a Cancel under the same request id makes sure that a late acquire grants
// nothing; a grant that turns up nevertheless is released unused.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "client/held_lease.h"

namespace holdfast::client {

class SessionFlow;

struct FlowOptions {
  Duration timeout = Seconds(10);  // of each request with its retries, beside an acquire's wait
  Duration attempt_timeout = Seconds(3);  // of one attempt
};

class LockFlow : public Machine {
 public:
  // `goal.acquire.request_id` may be empty. `on_update` runs at each change of state or deadline,
  // and never inside the constructor. `session`, if not null, is the one that the goal names.
  LockFlow(CallShared& shared, const LockGoal& goal, const FlowOptions& options,
           std::shared_ptr<SessionFlow> session, LockCallback on_update, BootTime now);
  ~LockFlow() override;
  LockFlow(const LockFlow&) = delete;
  LockFlow& operator=(const LockFlow&) = delete;

  void Advance(BootTime now, std::vector<Outgoing>& out) override;
  BootTime NextWake() const override;
  void OnReply(AttemptId attempt, const Reply& reply, BootTime now) override;
  void OnFailure(AttemptId attempt, const Failure& failure, BootTime now) override;
  bool Done() const override;

  bool EnsureHeld(BootTime now) const { return hold_.has_value() && hold_->EnsureHeld(now); }
  // Releases what is held and withdraws what is asked for; Advance must follow.
  void Release(BootTime now);

  // From its session.
  void OnSessionKept(const LeasePromise& promise, BootTime sent, std::uint64_t revocations,
                     BootTime deadline, BootTime now);
  void OnSessionDeadline(BootTime deadline, BootTime now);
  void OnSessionClosing(BootTime now);
  void OnSessionOver(Cause cause, const std::optional<Error>& error, BootTime now);

  const LockUpdate& current() const { return current_; }

 private:
  enum class Phase {
    kAsking,
    kWithdrawing,  // Cancel is on its way
    kAskingAgain,  // Cancel said that it is granted: for the lease id, to release it
    kHolding,
    kOver,  // not acquired
  };

  void AdvanceOnce(BootTime now, std::vector<Outgoing>& out);
  void OnAcquireAnswer(const AcquireResult& result, const ReplyTiming& timing, BootTime now);
  void OnAcquireFailed(BootTime now);
  void OnCancelAnswer(CancelOutcome outcome, BootTime now);
  void Withdraw(BootTime now);
  void EndUnresolved(const Error& why, BootTime now);
  void NotAcquired(LockUpdate update);
  void ReportHold(BootTime now);
  void Report(LockUpdate update);

  Request MakeAcquire() const;
  CallOptions OptionsOf(Duration wait, BootTime now) const;
  HoldOptions HoldOptionsOf() const;

  CallShared& shared_;
  LockGoal goal_;
  FlowOptions options_;
  std::shared_ptr<SessionFlow> session_;
  LockCallback on_update_;
  Phase phase_ = Phase::kAsking;
  std::uint64_t sequence_ = 0;  // 0: the caller's own request id, not under the watermark
  std::optional<Call> ask_;
  std::optional<Call> cancel_;
  std::optional<HeldLease> hold_;
  std::uint64_t revocations_ = 0;  // of its session, before it asked
  bool reported_held_ = false;
  bool unwanted_ = false;         // what is still granted is released
  std::optional<Error> overdue_;  // why it was withdrawn, if not on wish
  LockUpdate current_;
};

}  // namespace holdfast::client
