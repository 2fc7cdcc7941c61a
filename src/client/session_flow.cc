#include "client/session_flow.h"

#include <algorithm>
#include <utility>

namespace holdfast::client {

SessionFlow::SessionFlow(CallShared& shared, const SessionGoal& goal, const FlowOptions& options,
                         SessionCallback on_update, BootTime now)
    : shared_(shared),
      goal_(goal),
      options_(options),
      on_update_(std::move(on_update)),
      renewal_(shared, Seconds(1)) {
  if (goal_.open.request_id.empty()) {
    goal_.open.request_id = ToHex(shared.random.Draw());
    sequence_ = shared.identity.Begin(goal_.open.request_id, now);
  }
  current_.request_id = goal_.open.request_id;
  open_.emplace(shared, OptionsOf(now + options_.timeout), now);
}

void SessionFlow::Advance(BootTime now, std::vector<Outgoing>& out) {
  EndIfOver(now);
  if (current_.state == SessionState::kOpening) {
    AdvanceOpen(now, out);
  }
  if (current_.state == SessionState::kSafe || current_.state == SessionState::kJeopardy) {
    if (const auto order = renewal_.Poll(now, promise_.until + goal_.jeopardy)) {
      out.push_back({*order, KeepAliveRequest{.namespace_name = goal_.open.namespace_name,
                                              .session_id = current_.session_id}});
    }
  }
  if (current_.state == SessionState::kSafe) {
    AdvanceOrphans(now, out);
  }
  if (current_.state == SessionState::kClosing) {
    AdvanceClose(now, out);
  }
}

BootTime SessionFlow::NextWake() const {
  switch (current_.state) {
    case SessionState::kOpening:
      return open_->NextWake();
    case SessionState::kSafe: {
      BootTime wake = std::min(renewal_.NextWake(), LocalDeadlineOf());
      for (const Orphan& orphan : orphans_) {
        wake =
            std::min(wake, orphan.call.has_value() ? orphan.call->NextWake() : orphan.not_before);
      }
      return wake;
    }
    case SessionState::kJeopardy:
      return std::min(renewal_.NextWake(), promise_.until + goal_.jeopardy);
    case SessionState::kClosing:
      return close_->NextWake();
    case SessionState::kClosed:
    case SessionState::kExpired:
    case SessionState::kNotOpened:
      return kNever;
  }
  return kNever;
}

void SessionFlow::OnReply(AttemptId attempt, const Reply& reply, BootTime now) {
  EndIfOver(now);
  if (const auto* opened = std::get_if<OpenSessionResult>(&reply)) {
    if (current_.state == SessionState::kOpening && open_->Owns(attempt)) {
      OnOpened(*opened, open_->OnReply(attempt, now), now);
    }
  } else if (const auto* kept = std::get_if<KeepAliveResult>(&reply)) {
    if (const auto timing = renewal_.OnReply(attempt, now)) {
      OnKeepAlive(*kept, *timing, now);
    }
  } else if (const auto* closed = std::get_if<CloseSessionResult>(&reply)) {
    if (current_.state == SessionState::kClosing && close_->Owns(attempt)) {
      close_->OnReply(attempt, now);
      if (closed->closed) {
        Over(SessionState::kClosed, Cause::kSessionClosed, std::nullopt, now);
      } else {
        Over(SessionState::kExpired, closed->cause, std::nullopt, now);
      }
    }
  } else if (std::holds_alternative<ReleaseResult>(reply)) {
    const auto answered = std::find_if(orphans_.begin(), orphans_.end(), [&](const Orphan& orphan) {
      return orphan.call.has_value() && orphan.call->Owns(attempt);
    });
    if (answered != orphans_.end()) {
      orphans_.erase(answered);  // released, or over by itself: nothing is left of it either way
    }
  }
}

void SessionFlow::OnFailure(AttemptId attempt, const Failure& failure, BootTime now) {
  EndIfOver(now);
  renewal_.OnFailure(attempt, failure, now);
  if (open_->Owns(attempt)) {
    open_->OnFailure(attempt, failure, now);
  }
  if (close_.has_value() && close_->Owns(attempt)) {
    close_->OnFailure(attempt, failure, now);
  }
  for (Orphan& orphan : orphans_) {
    if (orphan.call.has_value() && orphan.call->Owns(attempt)) {
      orphan.call->OnFailure(attempt, failure, now);
    }
  }
}

void SessionFlow::OnOpened(const OpenSessionResult& result, const ReplyTiming& timing,
                           BootTime now) {
  if (sequence_ != 0) {
    shared_.identity.Answered(sequence_);
  }
  if (const SessionRefused* refused = result.refused()) {
    current_.refused = *refused;
    Over(SessionState::kNotOpened, Cause::kUnspecified, std::nullopt, now);
    return;
  }
  const SessionOpened& opened = *result.opened();
  current_.session_id = opened.session_id;
  current_.session_fp = opened.session_fp;
  current_.ttl = opened.ttl;
  promise_ = PromiseOf(timing, opened.remaining, opened.ttl);
  renewal_.Succeeded(timing.sent, promise_);
  if (unwanted_) {
    StartClose(now);
  } else if (now < LocalDeadlineOf()) {
    Become(SessionState::kSafe);
  } else {
    renewal_.Now(now);  // the answer is older than the lease it speaks of
    Become(SessionState::kJeopardy);
  }
}

void SessionFlow::OnKeepAlive(const KeepAliveResult& result, const ReplyTiming& timing,
                              BootTime now) {
  if (!result.alive) {
    Over(SessionState::kExpired, result.cause, std::nullopt, now);
    return;
  }
  const LeasePromise kept = PromiseOf(timing, result.remaining, promise_.ttl);
  promise_ = Later(promise_, kept);
  revocations_ = std::max(revocations_, result.revocations);
  if (now >= LocalDeadlineOf()) {
    renewal_.Now(now);
    return;
  }
  renewal_.Succeeded(timing.sent, promise_);
  Become(SessionState::kSafe);
  for (LockFlow* flow : holds_) {
    flow->OnSessionKept(kept, timing.sent, result.revocations, LocalDeadlineOf(), now);
  }
}

void SessionFlow::AdvanceOpen(BootTime now, std::vector<Outgoing>& out) {
  if (const auto order = open_->Poll(now)) {
    OpenSessionRequest request = goal_.open;
    if (sequence_ != 0) {
      request.context = shared_.identity.Context(sequence_);
    }
    out.push_back({*order, std::move(request)});
  }
  if (open_->running()) {
    return;
  }
  // A session that was opened nevertheless ends by itself: it is never kept alive.
  const bool unknown = open_->error()->code == ErrorCode::kUnknownOutcome;
  if (sequence_ != 0 && unknown) {
    shared_.identity.Unresolved(sequence_, goal_.open.request_id, now);
  } else if (sequence_ != 0) {
    shared_.identity.Answered(sequence_);
  }
  Over(SessionState::kNotOpened, Cause::kUnspecified, open_->error(), now);
}

void SessionFlow::AdvanceClose(BootTime now, std::vector<Outgoing>& out) {
  if (const auto order = close_->Poll(now)) {
    out.push_back({*order, CloseSessionRequest{.namespace_name = goal_.open.namespace_name,
                                               .session_id = current_.session_id}});
  }
  if (!close_->running()) {
    Over(SessionState::kClosed, Cause::kSessionClosed, close_->error(), now);  // it ends by itself
  }
}

void SessionFlow::AdvanceOrphans(BootTime now, std::vector<Outgoing>& out) {
  for (auto orphan = orphans_.begin(); orphan != orphans_.end();) {
    if (!orphan->call.has_value() && now >= orphan->not_before) {
      orphan->call.emplace(shared_, OptionsOf(now + options_.timeout), now);
    }
    if (orphan->call.has_value()) {
      if (const auto order = orphan->call->Poll(now)) {
        out.push_back({*order, orphan->release});
      }
      if (!orphan->call->running()) {
        orphan = orphans_.erase(orphan);
        continue;
      }
    }
    ++orphan;
  }
}

void SessionFlow::Close(BootTime now) {
  EndIfOver(now);
  if (current_.state == SessionState::kOpening) {
    unwanted_ = true;
    if (!open_->may_have_arrived()) {
      if (sequence_ != 0) {
        shared_.identity.Answered(sequence_);
      }
      Over(SessionState::kNotOpened, Cause::kCancelled, std::nullopt, now);
    }
  } else if (current_.state == SessionState::kSafe || current_.state == SessionState::kJeopardy) {
    StartClose(now);
  }
}

void SessionFlow::StartClose(BootTime now) {
  renewal_.Stop();
  orphans_.clear();  // they go with the session
  close_.emplace(shared_, OptionsOf(std::max(promise_.until, now + options_.timeout)), now);
  Become(SessionState::kClosing);
  for (LockFlow* flow : holds_) {
    flow->OnSessionClosing(now);
  }
}

// Time goes before messages: an answer that comes after the deadline finds the holds lost.
void SessionFlow::EndIfOver(BootTime now) {
  if (current_.state == SessionState::kSafe && now >= LocalDeadlineOf()) {
    Become(SessionState::kJeopardy);
    for (LockFlow* flow : holds_) {
      flow->OnSessionDeadline(LocalDeadlineOf(), now);
    }
  }
  if (current_.state == SessionState::kJeopardy && now >= promise_.until + goal_.jeopardy) {
    Over(SessionState::kExpired, Cause::kSessionExpired, renewal_.last_failure(), now);
  }
}

void SessionFlow::Over(SessionState state, Cause cause, const std::optional<Error>& error,
                       BootTime now) {
  renewal_.Stop();
  orphans_.clear();
  current_.cause = cause;
  current_.error = error;
  Become(state);
  for (LockFlow* flow : holds_) {
    flow->OnSessionOver(cause, error, now);
  }
}

void SessionFlow::Become(SessionState state) {
  const BootTime deadline = LocalDeadlineOf();
  if (state == current_.state && deadline == current_.deadline) {
    return;
  }
  current_.state = state;
  current_.deadline = deadline;
  if (on_update_) {
    on_update_(current_);
  }
}

void SessionFlow::Attach(LockFlow& flow) {
  holds_.push_back(&flow);
}

void SessionFlow::Detach(LockFlow& flow) {
  holds_.erase(std::remove(holds_.begin(), holds_.end(), &flow), holds_.end());
}

void SessionFlow::Inform(LockFlow& flow, BootTime now) const {
  if (IsFinal(current_.state)) {
    flow.OnSessionOver(current_.cause, current_.error, now);
  } else if (current_.state == SessionState::kClosing) {
    flow.OnSessionClosing(now);
  } else {
    flow.OnSessionDeadline(LocalDeadlineOf(), now);
  }
}

void SessionFlow::ReleaseLater(const ReleaseRequest& release, BootTime not_before) {
  if (current_.state == SessionState::kSafe || current_.state == SessionState::kJeopardy) {
    orphans_.push_back({release, not_before, std::nullopt});
  }
}

CallOptions SessionFlow::OptionsOf(BootTime deadline) const {
  return CallOptions{.repeat = Repeat::kIdempotent,
                     .attempt_timeout = options_.attempt_timeout,
                     .deadline = deadline};
}

}  // namespace holdfast::client
