// How short a ttl may be before ordinary trouble loses the lease of a healthy holder.
//
// Clients renew at a third of the ttl and give up 5 % of it (and the margin for clocks) before its
// end. If everything goes wrong right before a renewal is sent, what is left of the ttl must last
// for the holder's longest pause, for the service to be back, and for two messages:
//
//   ttl / 3 + pause + failover + recovery + 2 * network + clocks <= 0.95 * ttl
//
// docs/OPERATIONS.md works an example.
#pragma once

#include "base/time.h"

namespace holdfast::server {

struct Config;

// Rounded up to milliseconds.
Duration RecommendedTtlMin(const Config& config);

}  // namespace holdfast::server
