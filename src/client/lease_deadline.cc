#include "client/lease_deadline.h"

#include "base/planted.h"

namespace holdfast::client {

LeasePromise PromiseOf(const ReplyTiming& timing, Duration remaining, Duration ttl) {
  BootTime from = timing.sent;
  if (Planted(Bug::kDeadlineFromReceipt)) {
    from = timing.received;
  }
  if (Planted(Bug::kDeadlineFromFirstSend)) {
    from = timing.first_sent;
  }
  return LeasePromise{.until = from + remaining, .ttl = ttl};
}

BootTime LocalDeadline(const LeasePromise& promise, Duration stop_time) {
  return promise.until - promise.ttl / 20 - stop_time;
}

}  // namespace holdfast::client
