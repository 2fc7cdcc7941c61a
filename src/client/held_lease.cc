#include "client/held_lease.h"

#include <algorithm>

namespace holdfast::client {

HeldLease::HeldLease(CallShared& shared, const HoldOptions& options, const Grant& grant,
                     const ReplyTiming& timing, BootTime now)
    : shared_(shared),
      options_(options),
      grant_(grant),
      renewal_(shared, grant.ttl),
      promise_(PromiseOf(timing, grant.remaining, grant.ttl)),
      revocations_(options.revocations),
      revocations_to_check_(options.revocations) {
  if (!grant.provisional && now < deadline()) {
    state_ = LockState::kHeld;
    was_held_ = true;
    PlanRenewal(timing.sent);
    return;
  }
  // An answer that is older than its lease is worth one renewal: the service may have extended the
  // lease.
  confirm_until_ = std::max(promise_.until, now + 2 * renewal_.attempt_timeout());
  renewal_.Now(now);
}

void HeldLease::Advance(BootTime now, std::vector<Outgoing>& out) {
  EndIfOver(now);
  if (state_ == LockState::kConfirming || state_ == LockState::kHeld) {
    const BootTime limit = state_ == LockState::kConfirming ? confirm_until_ : deadline();
    if (const auto order = renewal_.Poll(now, limit)) {
      out.push_back({*order, RenewRequest{.namespace_name = options_.namespace_name,
                                          .resource = options_.resource,
                                          .lease_id = grant_.lease_id}});
    }
  }
  if (!release_.has_value()) {
    return;
  }
  if (const auto order = release_->Poll(now)) {
    out.push_back({*order, MakeRelease()});
  }
  if (!release_->running()) {
    if (state_ == LockState::kReleasing) {
      error_ = release_->error();  // unanswered: the lease ends by itself at its promise
      state_ = LockState::kReleased;
    }
    release_.reset();
  }
}

BootTime HeldLease::NextWake() const {
  BootTime wake = release_.has_value() ? release_->NextWake() : kNever;
  if (state_ == LockState::kConfirming) {
    wake = std::min({wake, confirm_until_, renewal_.NextWake()});
  } else if (state_ == LockState::kHeld || state_ == LockState::kRevoking) {
    wake = std::min({wake, deadline(), renewal_.NextWake()});
  }
  return wake;
}

void HeldLease::OnReply(AttemptId attempt, const Reply& reply, BootTime now) {
  EndIfOver(now);
  if (const auto* renew = std::get_if<RenewResult>(&reply)) {
    const auto timing = renewal_.OnReply(attempt, now);
    if (!timing.has_value()) {
      return;
    }
    if (const Renewed* renewed = renew->renewed()) {
      OnRenewed(attempt, *renewed, *timing, now);
    } else {
      OnNotRenewed(*renew->not_renewed(), *timing, now);
    }
    return;
  }
  const auto* release = std::get_if<ReleaseResult>(&reply);
  if (release == nullptr || !release_.has_value() || !release_->Owns(attempt)) {
    return;
  }
  release_->OnReply(attempt, now);
  release_.reset();
  if (state_ == LockState::kReleasing) {
    state_ = release->released ? LockState::kReleased : LockState::kLost;
    cause_ = release->released ? Cause::kReleased : release->cause;
  }
}

void HeldLease::OnFailure(AttemptId attempt, const Failure& failure, BootTime now) {
  EndIfOver(now);
  renewal_.OnFailure(attempt, failure, now);
  if (release_.has_value() && release_->Owns(attempt)) {
    release_->OnFailure(attempt, failure, now);
  }
}

void HeldLease::PlanRenewal(BootTime sent) {
  if (options_.on_session) {
    renewal_.SucceededElsewhere(sent, promise_);
  } else {
    renewal_.Succeeded(sent, promise_);
  }
}

void HeldLease::OnRenewed(AttemptId attempt, const Renewed& renewed, const ReplyTiming& timing,
                          BootTime now) {
  if (attempt > checked_after_) {
    revocations_ = revocations_to_check_;
  }
  promise_ = Later(promise_, PromiseOf(timing, renewed.remaining, renewed.ttl));
  if (now >= deadline()) {
    renewal_.Now(now);  // confirming, and the answer was too slow again
    return;
  }
  state_ = LockState::kHeld;
  was_held_ = true;
  PlanRenewal(timing.sent);
}

void HeldLease::OnNotRenewed(const NotRenewed& answer, const ReplyTiming& timing, BootTime now) {
  const bool still_held = answer.cause == Cause::kRevoking || answer.cause == Cause::kHoldLimit;
  if (state_ != LockState::kHeld || !still_held) {
    Lose(answer.cause, now);
    return;
  }
  promise_ = Later(promise_, PromiseOf(timing, answer.remaining, promise_.ttl));
  renewal_.Stop();
  state_ = LockState::kRevoking;
  cause_ = answer.cause;
  reason_ = answer.reason;
  EndIfOver(now);
}

bool HeldLease::EnsureHeld(BootTime now) const {
  return (state_ == LockState::kHeld || state_ == LockState::kRevoking) && now < deadline();
}

void HeldLease::Release(BootTime now) {
  EndIfOver(now);
  if (IsFinal(state_) || state_ == LockState::kReleasing) {
    return;
  }
  renewal_.Stop();
  state_ = LockState::kReleasing;
  StartRelease(now);
}

void HeldLease::OnSessionKept(const LeasePromise& promise, BootTime sent, std::uint64_t revocations,
                              BootTime deadline, BootTime now) {
  EndIfOver(now);
  session_deadline_ = deadline;
  if (state_ == LockState::kHeld && revocations == revocations_) {
    promise_ = Later(promise_, promise);
    PlanRenewal(sent);
  }
  if (revocations > revocations_to_check_) {
    revocations_to_check_ = revocations;
    checked_after_ = AttemptId{shared_.attempts_made};
    if (state_ == LockState::kHeld) {
      renewal_.Now(now);
    }
  }
  EndIfOver(now);
}

void HeldLease::OnSessionDeadline(BootTime deadline, BootTime now) {
  EndIfOver(now);
  session_deadline_ = deadline;
  EndIfOver(now);
}

void HeldLease::OnSessionClosing(BootTime now) {
  EndIfOver(now);
  if (!IsFinal(state_)) {
    renewal_.Stop();
    state_ = LockState::kReleasing;
  }
}

void HeldLease::OnSessionOver(Cause cause, const std::optional<Error>& error, BootTime now) {
  EndIfOver(now);
  if (IsFinal(state_)) {
    return;
  }
  error_ = error;
  if (state_ == LockState::kReleasing && cause == Cause::kSessionClosed) {
    state_ = LockState::kReleased;
    cause_ = cause;
  } else {
    Lose(cause, now);
  }
  release_.reset();  // went with the session
}

BootTime HeldLease::deadline() const {
  return std::min(LocalDeadline(promise_, options_.stop_time), session_deadline_);
}

ReleaseRequest HeldLease::MakeRelease() const {
  return ReleaseRequest{.namespace_name = options_.namespace_name,
                        .resource = options_.resource,
                        .lease_id = grant_.lease_id};
}

// Time goes before messages: an answer that comes after the deadline finds the hold lost.
void HeldLease::EndIfOver(BootTime now) {
  if (state_ == LockState::kConfirming && now >= confirm_until_) {
    Lose(Cause::kUnconfirmed, now);
  } else if (state_ == LockState::kHeld && now >= deadline()) {
    Lose(now >= session_deadline_ ? Cause::kSessionExpired : Cause::kExpired, now);
  } else if (state_ == LockState::kRevoking && now >= deadline()) {
    Lose(cause_ == Cause::kRevoking ? Cause::kBroken : cause_, now);
  }
}

void HeldLease::Lose(Cause cause, BootTime now) {
  if (renewal_.last_failure().has_value()) {
    error_ = renewal_.last_failure();
  }
  renewal_.Stop();
  state_ = LockState::kLost;
  cause_ = cause;
  // A lease that was in use is not released here: its work may still be stopping, and has until the
  // promise to do so.
  if (!was_held_ && !release_.has_value()) {
    StartRelease(now);
  }
}

void HeldLease::StartRelease(BootTime now) {
  release_.emplace(shared_,
                   CallOptions{.repeat = Repeat::kIdempotent,
                               .attempt_timeout = options_.attempt_timeout,
                               .deadline = std::max(promise_.until, now + options_.timeout)},
                   now);
}

}  // namespace holdfast::client
