// One granted lease from the grant to its end, as its holder sees it:
//
//   kConfirming --renewed--> kHeld --not renewed--> kRevoking --+
//        |                     |                       |        | local deadline
//        |                     +---------- Release ----+        v
//        |                                 |                  kLost  (final)
//        +------------- Release -----> kReleasing --> kReleased (final)
//
// A grant that came out of a queue, or whose answer came too late to be used, is confirmed by a
// renewal first. Renewals that fail do not end a hold: the service's word or the local deadline do.
// What is lost stays lost.
//
// A hold on a session is renewed by the session's keepalives, as long as these say that no hold of
// the session was revoked since the hold was asked for (`revocations`, see docs/SEMANTICS.md). When
// one was, each hold asks for itself: it may be the one. The session's deadline bounds it always.
// No I/O, no clock; not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "client/machine.h"
#include "client/renewal.h"
#include "holdfast/states.h"

namespace holdfast::client {

struct HoldOptions {
  std::string namespace_name;
  std::string resource;
  Duration stop_time{};                   // how long the work needs to stop
  Duration timeout = Seconds(10);         // for how long a release is tried at least
  Duration attempt_timeout = Seconds(3);  // of a release
  bool on_session = false;
  std::uint64_t revocations = 0;  // of the session, as known when the lock was asked for
};

class HeldLease {
 public:
  HeldLease(CallShared& shared, const HoldOptions& options, const Grant& grant,
            const ReplyTiming& timing, BootTime now);

  // As those of Machine.
  void Advance(BootTime now, std::vector<Outgoing>& out);
  BootTime NextWake() const;
  void OnReply(AttemptId attempt, const Reply& reply, BootTime now);
  void OnFailure(AttemptId attempt, const Failure& failure, BootTime now);
  bool Done() const { return IsFinal(state_) && !release_.has_value(); }

  // Gate for new work; right also before Advance was called at the deadline.
  bool EnsureHeld(BootTime now) const;
  // Stop the work first. A hold that is over already stays as it is.
  void Release(BootTime now);

  // The session was kept alive, at this number of revocations.
  void OnSessionKept(const LeasePromise& promise, BootTime sent, std::uint64_t revocations,
                     BootTime deadline, BootTime now);
  // The session's own local deadline changed, or has passed.
  void OnSessionDeadline(BootTime deadline, BootTime now);
  void OnSessionClosing(BootTime now);
  // The session ended: as a release if this hold was being released with it, else the hold is lost.
  void OnSessionOver(Cause cause, const std::optional<Error>& error, BootTime now);

  // kConfirming, kHeld, kRevoking, kReleasing, kReleased or kLost.
  LockState state() const { return state_; }
  bool was_held() const { return was_held_; }
  BootTime deadline() const;
  const LeasePromise& promise() const { return promise_; }
  const Grant& grant() const { return grant_; }
  // How it ended, or why it cannot be renewed.
  Cause cause() const { return cause_; }
  const std::string& reason() const { return reason_; }
  const std::optional<Error>& error() const { return error_; }
  ReleaseRequest MakeRelease() const;

 private:
  void EndIfOver(BootTime now);
  void PlanRenewal(BootTime sent);
  void OnRenewed(AttemptId attempt, const Renewed& renewed, const ReplyTiming& timing,
                 BootTime now);
  void OnNotRenewed(const NotRenewed& answer, const ReplyTiming& timing, BootTime now);
  void Lose(Cause cause, BootTime now);
  void StartRelease(BootTime now);

  CallShared& shared_;
  HoldOptions options_;
  Grant grant_;
  Renewal renewal_;
  std::optional<Call> release_;
  LockState state_ = LockState::kConfirming;
  LeasePromise promise_;
  BootTime session_deadline_ = kNever;
  BootTime confirm_until_{};
  // Not revoked as far as this number of the session's revocations goes.
  std::uint64_t revocations_ = 0;
  // A newer number, which a renewal after this attempt of the client answers for.
  std::uint64_t revocations_to_check_ = 0;
  AttemptId checked_after_{};
  bool was_held_ = false;
  Cause cause_ = Cause::kUnspecified;
  std::string reason_;
  std::optional<Error> error_;
};

}  // namespace holdfast::client
