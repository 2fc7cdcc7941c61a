// What the calls of one client share so that they fail together gracefully: the endpoint that is in
// use, and a budget of retries that keeps an outage from turning into a storm. No I/O, no clock;
// not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/time.h"

namespace holdfast::client {

// Which endpoint to use next. One failure moves all later attempts of the client, so that an outage
// of one endpoint is noticed once and not by every call. A node that does not lead says which one
// does, and the client goes there: one hop less.
class EndpointSet {
 public:
  // After a failure: the leader of the cluster may be one that this client cannot reach.
  static constexpr Duration kAvoided = Seconds(30);

  // `count` is at least 1.
  explicit EndpointSet(std::size_t count) : avoid_until_(count) {}

  std::size_t current() const { return current_; }
  std::size_t count() const { return avoid_until_.size(); }
  void Failed(std::size_t endpoint, BootTime now) {
    avoid_until_[endpoint] = now + kAvoided;
    if (endpoint == current_) {
      current_ = (current_ + 1) % count();
    }
  }
  void Prefer(std::size_t endpoint, BootTime now) {
    if (now >= avoid_until_[endpoint]) {
      current_ = endpoint;
    }
  }

 private:
  std::size_t current_ = 0;
  std::vector<BootTime> avoid_until_;
};

// Retries are paid for: each call that succeeds earns a fifth of one, and five a second come by
// themselves so that the end of an outage is noticed. A retry without cover is put off, one after
// the other, and never dropped.
class RetryBudget {
 public:
  static constexpr std::int64_t kCapacity = 50;
  static constexpr std::int64_t kRefillPerSecond = 5;

  // Takes one retry and says when it may be sent: `now`, or later.
  BootTime Reserve(BootTime now);
  // Takes one retry that cannot wait (a renewal); the others pay for it.
  void Spend(BootTime now);
  void Succeeded();

 private:
  static constexpr std::int64_t kRetry = 1000;  // the unit: a thousandth of a retry
  static constexpr std::int64_t kEarned = kRetry / 5;

  void Refill(BootTime now);

  std::int64_t credit_ = kCapacity * kRetry;
  BootTime refilled_at_{};
};

}  // namespace holdfast::client
