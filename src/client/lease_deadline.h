// How long a client may rely on a lease. The service counts `remaining` at a moment after the
// request was sent, so the lease surely lives until *that attempt's* send time + remaining on the
// client's boot clock. The local deadline is earlier by a margin: 5 % of the ttl for clocks of
// different rates, and the time that the work needs to stop.
#pragma once

#include "base/time.h"

namespace holdfast::client {

// When the attempts of one answered request were sent, and when the answer came.
struct ReplyTiming {
  BootTime first_sent{};
  BootTime sent{};  // the attempt that was answered
  BootTime received{};
};

struct LeasePromise {
  BootTime until{};  // the service grants to nobody else before
  Duration ttl{};
};

LeasePromise PromiseOf(const ReplyTiming& timing, Duration remaining, Duration ttl);

// Valid strictly before it.
BootTime LocalDeadline(const LeasePromise& promise, Duration stop_time);

// The better of two promises about one lease: the service never shortens one.
inline LeasePromise Later(const LeasePromise& a, const LeasePromise& b) {
  return a.until < b.until ? b : a;
}

}  // namespace holdfast::client
