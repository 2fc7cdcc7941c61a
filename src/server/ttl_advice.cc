#include "server/ttl_advice.h"

#include "server/config.h"

namespace holdfast::server {

Duration RecommendedTtlMin(const Config& config) {
  const Duration trouble = config.ttl_longest_pause + config.ttl_failover + config.ttl_recovery +
                           2 * config.ttl_network_p99 + config.ttl_clock_error;
  // 0.95 - 1/3 = 37/60.
  const std::int64_t millis = (trouble.count() * 60 + 37'000'000 - 1) / 37'000'000;
  return Millis(millis);
}

}  // namespace holdfast::server
