#include "client/call.h"

#include <algorithm>

#include "base/check.h"

namespace holdfast::client {

Call::Call(CallShared& shared, const CallOptions& options, BootTime now)
    : shared_(shared), options_(options), next_send_(now) {}

std::optional<AttemptOrder> Call::Poll(BootTime now) {
  if (!running() || outstanding_) {
    return std::nullopt;
  }
  if (now >= options_.deadline) {
    Finish(last_failure_.value_or(
        MakeError(ErrorCode::kUnavailable, "the time was over before the first attempt")));
    return std::nullopt;
  }
  if (now < next_send_) {
    return std::nullopt;
  }
  const Sent attempt{AttemptId{++shared_.attempts_made}, now};
  if (sent_.empty()) {
    first_sent_ = now;
  } else if (sent_.size() == kAttemptsRemembered) {
    sent_.erase(sent_.begin());
  }
  sent_.push_back(attempt);
  endpoint_ = shared_.endpoints.current();
  outstanding_ = true;
  return AttemptOrder{attempt.id, endpoint_,
                      std::min(options_.deadline, now + options_.attempt_timeout)};
}

BootTime Call::NextWake() const {
  if (!running() || outstanding_) {
    return kNever;
  }
  return std::min(next_send_, options_.deadline);
}

bool Call::Owns(AttemptId attempt) const {
  return std::any_of(sent_.begin(), sent_.end(),
                     [&](const Sent& sent) { return sent.id == attempt; });
}

bool Call::IsLatest(AttemptId attempt) const {
  return !sent_.empty() && sent_.back().id == attempt;
}

ReplyTiming Call::OnReply(AttemptId attempt, BootTime now) {
  const auto found = std::find_if(sent_.begin(), sent_.end(),
                                  [&](const Sent& sent) { return sent.id == attempt; });
  HF_CHECK(found != sent_.end(), "a reply to an attempt of another call");
  answered_ = true;
  error_.reset();
  outstanding_ = false;
  shared_.budget.Succeeded();
  return ReplyTiming{.first_sent = first_sent_, .sent = found->at, .received = now};
}

void Call::OnFailure(AttemptId attempt, const Failure& failure, BootTime now) {
  if (!running() || !outstanding_ || !IsLatest(attempt)) {
    return;
  }
  outstanding_ = false;
  ++failures_;
  last_failure_ = failure.error;
  may_have_been_done_ |= failure.kind == FailureKind::kUnknown && options_.repeat != Repeat::kRead;
  const bool cannot_repeat = options_.repeat == Repeat::kOnce && may_have_been_done_;
  if (failure.kind == FailureKind::kFinal || cannot_repeat) {
    Finish(failure.error);
    return;
  }
  shared_.endpoints.Failed(endpoint_, now);
  const BootTime paused = now + std::max(Pause(), failure.retry_after);
  if (options_.urgent) {
    shared_.budget.Spend(now);
    next_send_ = paused;
  } else {
    next_send_ = std::max(paused, shared_.budget.Reserve(now));
  }
  // An attempt that has hardly any time left tells nothing, and without one there is nothing to
  // wait for.
  if (next_send_ + std::min<Duration>(options_.attempt_timeout / 10, Millis(100)) >=
      options_.deadline) {
    Finish(failure.error);
  }
}

// Every endpoint gets one quick try; only then does waiting help.
Duration Call::Pause() {
  const std::size_t quick =
      std::max<std::size_t>(shared_.endpoints.count() - 1, options_.urgent ? 1 : 0);
  if (failures_ <= quick) {
    return {};
  }
  const std::size_t doublings = std::min<std::size_t>(failures_ - quick - 1, 20);
  const Duration pause =
      std::min(options_.backoff_max, options_.backoff_first * (std::int64_t{1} << doublings));
  return DrawBetween(shared_.random, pause / 2, pause);
}

void Call::Finish(const Error& why) {
  error_ = why;
  if (may_have_been_done_) {
    error_->code = ErrorCode::kUnknownOutcome;
  } else if (why.code == ErrorCode::kUnknownOutcome) {
    error_->code = ErrorCode::kUnavailable;  // a read that was not answered
  }
}

}  // namespace holdfast::client
