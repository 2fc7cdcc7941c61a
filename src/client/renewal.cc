#include "client/renewal.h"

#include <algorithm>

namespace holdfast::client {

// False for a late answer to an older attempt, which changes no plan.
bool Renewal::Take(BootTime sent, const LeasePromise& promise) {
  if (sent < newest_) {
    return false;
  }
  newest_ = sent;
  ttl_ = promise.ttl;
  last_failure_.reset();
  return true;
}

void Renewal::SucceededElsewhere(BootTime sent, const LeasePromise& promise) {
  if (Take(sent, promise)) {
    due_ = sent + std::min(promise.ttl, promise.until - sent) * 2 / 3;
  }
}

void Renewal::Succeeded(BootTime sent, const LeasePromise& promise) {
  if (!Take(sent, promise)) {
    return;
  }
  const Duration third = std::min(promise.ttl, promise.until - sent) / 3;
  // Earlier by up to a tenth, so that leases that were granted together do not stay together.
  due_ = sent + DrawBetween(shared_.random, third - third / 10, third);
}

void Renewal::Now(BootTime now) {
  due_ = now;
}

void Renewal::Stop() {
  due_ = kNever;
  call_.reset();
  recent_.clear();
}

std::optional<AttemptOrder> Renewal::Poll(BootTime now, BootTime limit) {
  if (!call_.has_value()) {
    if (now < due_ || now >= limit) {
      return std::nullopt;
    }
    due_ = kNever;
    call_.emplace(
        shared_,
        CallOptions{.repeat = Repeat::kIdempotent,
                    .attempt_timeout = attempt_timeout(),
                    .backoff_first = std::clamp<Duration>(ttl_ / 100, Millis(5), Millis(200)),
                    .backoff_max = std::clamp<Duration>(ttl_ / 12, Millis(20), Seconds(2)),
                    .urgent = true,
                    .deadline = limit},
        now);
  }
  const auto order = call_->Poll(now);
  if (order.has_value()) {
    if (recent_.size() == kRecent) {
      recent_.erase(recent_.begin());
    }
    recent_.push_back({order->id, now});
  }
  if (!call_->running()) {
    // Refused, or out of time by an older limit: what the service thinks of the lease is still
    // open.
    last_failure_ = call_->last_failure();
    call_.reset();
    due_ = now + std::clamp<Duration>(ttl_ / 20, Millis(10), Seconds(2));
  }
  return order;
}

BootTime Renewal::NextWake() const {
  return call_.has_value() ? call_->NextWake() : due_;
}

std::optional<ReplyTiming> Renewal::OnReply(AttemptId attempt, BootTime now) {
  if (call_.has_value() && call_->Owns(attempt)) {
    const ReplyTiming timing = call_->OnReply(attempt, now);
    call_.reset();
    return timing;
  }
  const auto sent = std::find_if(recent_.begin(), recent_.end(),
                                 [&](const Sent& recent) { return recent.id == attempt; });
  if (sent == recent_.end()) {
    return std::nullopt;
  }
  return ReplyTiming{.first_sent = sent->at, .sent = sent->at, .received = now};
}

void Renewal::OnFailure(AttemptId attempt, const Failure& failure, BootTime now) {
  if (call_.has_value() && call_->Owns(attempt)) {
    call_->OnFailure(attempt, failure, now);
    last_failure_ = failure.error;
  }
}

Duration Renewal::attempt_timeout() const {
  return std::clamp<Duration>(ttl_ / 6, Millis(20), Seconds(3));
}

}  // namespace holdfast::client
