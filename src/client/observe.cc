#include "client/observe.h"

#include <algorithm>
#include <utility>

namespace holdfast::client {

bool LeaderObserver::Accept(const LeaderInfo& leader) {
  if (leader.index < index_ || (!leader.vacant && leader.fencing_token < highest_token_)) {
    return false;
  }
  if (last_.has_value()) {
    if (leader.vacant && last_->vacant) {
      return false;
    }
    const bool same_leader = !leader.vacant && leader.fencing_token == highest_token_;
    if (same_leader && (last_->vacant || leader.value == last_->value)) {
      return false;
    }
  }
  index_ = leader.index;
  highest_token_ = leader.vacant ? highest_token_ : leader.fencing_token;
  last_ = leader;
  return true;
}

bool WatchCursor::Accept(const WatchItem& item) {
  if (const auto* started = std::get_if<WatchStarted>(&item)) {
    if (index_ == 0) {
      index_ = started->index;
    }
    return !std::exchange(started_, true);
  }
  if (const auto* gap = std::get_if<WatchGap>(&item)) {
    if (gap->index > index_) {
      index_ = gap->index;
      passed_ = 0;
    }
    repeated_ = 0;
    return true;
  }
  const std::uint64_t index = std::get<WatchEvent>(item).index;
  if (index < index_) {
    return false;
  }
  if (index > index_) {
    index_ = index;
    passed_ = 0;
    repeated_ = 0;
  } else if (repeated_ > 0) {
    --repeated_;
    return false;
  }
  ++passed_;
  return true;
}

std::optional<BootTime> StreamRetry::OnEnd(std::size_t endpoint, const Failure& failure,
                                           BootTime now) {
  if (failure.kind == FailureKind::kFinal) {
    return std::nullopt;
  }
  constexpr Duration kFirst = Millis(100);
  constexpr Duration kMax = Seconds(5);
  shared_.endpoints.Failed(endpoint, now);
  const Duration pause =
      std::min(kMax, kFirst * (std::int64_t{1} << std::min<std::size_t>(failures_++, 10)));
  const BootTime paused =
      now + std::max(DrawBetween(shared_.random, pause / 2, pause), failure.retry_after);
  return std::max(paused, shared_.budget.Reserve(now));
}

}  // namespace holdfast::client
