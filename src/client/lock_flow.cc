#include "client/lock_flow.h"

#include <algorithm>
#include <utility>

#include "client/session_flow.h"

namespace holdfast::client {

LockFlow::LockFlow(CallShared& shared, const LockGoal& goal, const FlowOptions& options,
                   std::shared_ptr<SessionFlow> session, LockCallback on_update, BootTime now)
    : shared_(shared),
      goal_(goal),
      options_(options),
      session_(std::move(session)),
      on_update_(std::move(on_update)) {
  AcquireRequest& acquire = goal_.acquire;
  if (acquire.request_id.empty()) {
    acquire.request_id = ToHex(shared.random.Draw());
    sequence_ = shared.identity.Begin(acquire.request_id, now);
  }
  current_.resource = acquire.resource;
  current_.request_id = acquire.request_id;
  ask_.emplace(shared, OptionsOf(BoundedWait(acquire.wait), now), now);
  if (session_ != nullptr) {
    session_->Attach(*this);
    revocations_ = session_->revocations();
  }
}

LockFlow::~LockFlow() {
  if (session_ != nullptr) {
    session_->Detach(*this);
  }
}

void LockFlow::Advance(BootTime now, std::vector<Outgoing>& out) {
  // What ends one phase may begin another that has something to send at once.
  for (bool changed = true; changed;) {
    const Phase before = phase_;
    AdvanceOnce(now, out);
    changed = phase_ != before;
  }
}

void LockFlow::AdvanceOnce(BootTime now, std::vector<Outgoing>& out) {
  switch (phase_) {
    case Phase::kAsking:
    case Phase::kAskingAgain:
      if (const auto order = ask_->Poll(now)) {
        out.push_back({*order, MakeAcquire()});
      }
      if (!ask_->running()) {
        OnAcquireFailed(now);
      }
      return;
    case Phase::kWithdrawing:
      if (const auto order = cancel_->Poll(now)) {
        CancelRequest request{.namespace_name = goal_.acquire.namespace_name,
                              .resource = goal_.acquire.resource,
                              .request_id = goal_.acquire.request_id,
                              .owner = goal_.acquire.owner,
                              .context = {}};
        if (sequence_ != 0) {
          request.context = shared_.identity.Context(sequence_);
        }
        out.push_back({*order, std::move(request)});
      }
      if (!cancel_->running()) {
        EndUnresolved(*cancel_->error(), now);
      }
      return;
    case Phase::kHolding:
      hold_->Advance(now, out);
      ReportHold(now);
      return;
    case Phase::kOver:
      return;
  }
}

BootTime LockFlow::NextWake() const {
  switch (phase_) {
    case Phase::kAsking:
    case Phase::kAskingAgain:
      return ask_->NextWake();
    case Phase::kWithdrawing:
      return cancel_->NextWake();
    case Phase::kHolding:
      return hold_->NextWake();
    case Phase::kOver:
      return kNever;
  }
  return kNever;
}

void LockFlow::OnReply(AttemptId attempt, const Reply& reply, BootTime now) {
  if (phase_ == Phase::kHolding) {
    hold_->OnReply(attempt, reply, now);
    ReportHold(now);
    return;
  }
  if (phase_ == Phase::kOver) {
    return;
  }
  if (const auto* result = std::get_if<AcquireResult>(&reply);
      result != nullptr && ask_->Owns(attempt)) {
    // The answer of an older attempt whose place a newer one of ours has taken says nothing about
    // the request.
    const bool replaced = result->refused() != nullptr &&
                          result->refused()->code == RefusalCode::kSuperseded &&
                          !ask_->IsLatest(attempt);
    if (!replaced) {
      OnAcquireAnswer(*result, ask_->OnReply(attempt, now), now);
    }
    return;
  }
  if (const auto* result = std::get_if<CancelResult>(&reply);
      result != nullptr && phase_ == Phase::kWithdrawing && cancel_->Owns(attempt)) {
    cancel_->OnReply(attempt, now);
    OnCancelAnswer(result->outcome, now);
  }
}

void LockFlow::OnFailure(AttemptId attempt, const Failure& failure, BootTime now) {
  if (phase_ == Phase::kHolding) {
    hold_->OnFailure(attempt, failure, now);
    ReportHold(now);
  } else if (ask_->Owns(attempt)) {
    ask_->OnFailure(attempt, failure, now);
  } else if (phase_ == Phase::kWithdrawing && cancel_->Owns(attempt)) {
    cancel_->OnFailure(attempt, failure, now);
  }
}

bool LockFlow::Done() const {
  return phase_ == Phase::kOver || (phase_ == Phase::kHolding && hold_->Done());
}

void LockFlow::Release(BootTime now) {
  unwanted_ = true;
  if (phase_ == Phase::kHolding) {
    hold_->Release(now);
    ReportHold(now);
  } else if (phase_ == Phase::kAsking) {
    Withdraw(now);
  }
}

void LockFlow::OnAcquireAnswer(const AcquireResult& result, const ReplyTiming& timing,
                               BootTime now) {
  if (sequence_ != 0) {
    shared_.identity.Answered(sequence_);
  }
  if (const Refusal* refusal = result.refused()) {
    LockUpdate update = current_;
    update.refusal = *refusal;
    update.cause = refusal->cause;
    NotAcquired(std::move(update));
    return;
  }
  hold_.emplace(shared_, HoldOptionsOf(), *result.granted(), timing, now);
  phase_ = Phase::kHolding;
  if (session_ != nullptr) {
    session_->Inform(*this, now);
  }
  if (unwanted_) {
    hold_->Release(now);
  }
  ReportHold(now);
}

void LockFlow::OnAcquireFailed(BootTime now) {
  if (phase_ == Phase::kAskingAgain) {
    EndUnresolved(*ask_->error(), now);
  } else if (ask_->may_have_arrived()) {
    overdue_ = ask_->error();
    Withdraw(now);
  } else {
    if (sequence_ != 0) {
      shared_.identity.Answered(sequence_);  // nothing was done, and it is not asked again
    }
    LockUpdate update = current_;
    update.error = ask_->error();
    NotAcquired(std::move(update));
  }
}

void LockFlow::Withdraw(BootTime now) {
  unwanted_ = true;
  if (!ask_->may_have_arrived()) {
    OnCancelAnswer(CancelOutcome::kCancelledBeforeArrival, now);
    return;
  }
  cancel_.emplace(shared_, OptionsOf({}, now), now);
  phase_ = Phase::kWithdrawing;
}

void LockFlow::OnCancelAnswer(CancelOutcome outcome, BootTime now) {
  switch (outcome) {
    case CancelOutcome::kCancelledBeforeArrival:
    case CancelOutcome::kWaiterRemoved:
    case CancelOutcome::kProvisionalReleased:
    case CancelOutcome::kAlreadyOver: {
      if (sequence_ != 0) {
        shared_.identity.Answered(sequence_);
      }
      LockUpdate update = current_;
      if (overdue_.has_value()) {
        update.error = MakeError(ErrorCode::kUnavailable,
                                 "not acquired in time and withdrawn; last: " + overdue_->message);
      } else {
        update.refusal =
            Refusal{.code = RefusalCode::kCancelled, .holder = {}, .retry_after = {}, .limit = {}};
      }
      NotAcquired(std::move(update));
      return;
    }
    case CancelOutcome::kStillGranted:
      ask_.emplace(shared_, OptionsOf({}, now), now);
      phase_ = Phase::kAskingAgain;
      return;
    case CancelOutcome::kUnspecified:
    case CancelOutcome::kNotYours:
    case CancelOutcome::kMemoryFull:
      EndUnresolved(MakeError(ErrorCode::kUnknownOutcome,
                              std::string("the cancel was answered ") + Name(outcome)),
                    now);
      return;
  }
}

void LockFlow::EndUnresolved(const Error& why, BootTime now) {
  if (sequence_ != 0) {
    shared_.identity.Unresolved(sequence_, goal_.acquire.request_id, now);
  }
  LockUpdate update = current_;
  update.error =
      MakeError(ErrorCode::kUnknownOutcome, "the acquire may have been done; last: " + why.message);
  NotAcquired(std::move(update));
}

void LockFlow::OnSessionKept(const LeasePromise& promise, BootTime sent, std::uint64_t revocations,
                             BootTime deadline, BootTime now) {
  if (phase_ == Phase::kHolding) {
    hold_->OnSessionKept(promise, sent, revocations, deadline, now);
    ReportHold(now);
  }
}

void LockFlow::OnSessionDeadline(BootTime deadline, BootTime now) {
  if (phase_ == Phase::kHolding) {
    hold_->OnSessionDeadline(deadline, now);
    ReportHold(now);
  }
}

void LockFlow::OnSessionClosing(BootTime now) {
  if (phase_ == Phase::kHolding) {
    hold_->OnSessionClosing(now);
    ReportHold(now);
  }
}

void LockFlow::OnSessionOver(Cause cause, const std::optional<Error>& error, BootTime now) {
  if (phase_ == Phase::kHolding) {
    hold_->OnSessionOver(cause, error, now);
    ReportHold(now);
  }
}

void LockFlow::NotAcquired(LockUpdate update) {
  phase_ = Phase::kOver;
  update.state = LockState::kNotAcquired;
  Report(std::move(update));
}

void LockFlow::ReportHold(BootTime now) {
  if (IsFinal(current_.state)) {
    return;  // an unused lease is still being released
  }
  LockUpdate update = current_;
  update.state = hold_->state();
  update.grant = hold_->grant();
  update.deadline = hold_->deadline();
  update.cause = hold_->cause();
  update.reason = hold_->reason();
  update.error = hold_->error();
  if (update.state == LockState::kLost && session_ != nullptr) {
    session_->ReleaseLater(hold_->MakeRelease(), now + HoldOptionsOf().stop_time);
  }
  reported_held_ |= update.state == LockState::kHeld || update.state == LockState::kRevoking;
  if (!reported_held_ && IsFinal(update.state)) {
    update.state = LockState::kNotAcquired;
    if (overdue_.has_value()) {
      update.error = overdue_;
    }
  }
  if (update.state != current_.state || update.deadline != current_.deadline) {
    Report(std::move(update));
  }
}

void LockFlow::Report(LockUpdate update) {
  current_ = std::move(update);
  if (on_update_) {
    on_update_(current_);
  }
}

Request LockFlow::MakeAcquire() const {
  AcquireRequest request = goal_.acquire;
  if (sequence_ != 0) {
    request.context = shared_.identity.Context(sequence_);
  }
  if (goal_.value.has_value()) {
    return CampaignRequest{.acquire = std::move(request), .value = *goal_.value};
  }
  return request;
}

CallOptions LockFlow::OptionsOf(Duration wait, BootTime now) const {
  return CallOptions{.repeat = Repeat::kIdempotent,
                     .attempt_timeout = wait + options_.attempt_timeout,
                     .deadline = now + wait + options_.timeout};
}

HoldOptions LockFlow::HoldOptionsOf() const {
  Duration stop_time = goal_.stop_time;
  if (session_ != nullptr) {
    stop_time = std::max(stop_time, session_->stop_time());
  }
  return HoldOptions{.namespace_name = goal_.acquire.namespace_name,
                     .resource = goal_.acquire.resource,
                     .stop_time = stop_time,
                     .timeout = options_.timeout,
                     .attempt_timeout = options_.attempt_timeout,
                     .on_session = session_ != nullptr,
                     .revocations = revocations_};
}

}  // namespace holdfast::client
