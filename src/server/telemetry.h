// What the server counts over applied batches, whichever front the commands came by: how leases,
// waits and sessions began and ended, which resources are busy, and grants whose ttl is too short
// to survive ordinary trouble.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include "base/histogram.h"
#include "base/time.h"
#include "core/event.h"
#include "core/outcome.h"
#include "engine/observer.h"
#include "server/hot_resources.h"

namespace holdfast::server {

struct TelemetryOptions {
  std::size_t hot_resources = HotResources::kPlacesMax;
  Duration recommended_ttl_min{};
};

// By core::Cause.
using CauseCounts = std::array<std::uint64_t, static_cast<std::size_t>(core::Cause::kRevoking) + 1>;

struct TelemetryCounts {
  CauseCounts grants{};  // kAcquired, kHandedOver
  CauseCounts leases_ended{};
  CauseCounts waiters_left{};
  CauseCounts sessions_ended{};
  CauseCounts renewals_failed{};
  CauseCounts keepalives_failed{};
  std::uint64_t waits = 0;
  std::uint64_t sessions_opened = 0;
  std::uint64_t revocations = 0;
  std::uint64_t short_ttl_grants = 0;
  HistogramData lease_overrun_seconds;
};

class Telemetry : public engine::Observer {
 public:
  explicit Telemetry(const TelemetryOptions& options);

  void OnApplied(const core::Batch& batch, const core::Applied& applied) override;

  // Any thread.
  TelemetryCounts Counts() const;
  Duration recommended_ttl_min() const { return options_.recommended_ttl_min; }
  // At most `limit` resources whose namespace `may_see`, busiest first.
  template <typename MaySee>
  HotResourcesView Hot(std::size_t limit, const MaySee& may_see) const {
    const std::lock_guard lock(hot_mutex_);
    return hot_.Top(limit, may_see);
  }

 private:
  using Counter = std::atomic<std::uint64_t>;
  using Causes = std::array<Counter, std::tuple_size_v<CauseCounts>>;
  static void Count(Causes& causes, core::Cause cause) {
    Histogram::Bump(causes[static_cast<std::size_t>(cause)], std::uint64_t{1});
  }
  void OnEvent(const core::Event& event);
  void OnOutcome(const core::Batch& batch, const core::Applied& applied,
                 const core::Outcome& outcome);
  void CountHot(const core::Batch& batch, const core::Applied& applied);
  void OnGrant(const core::Batch& batch, const core::Applied& applied,
               const core::Granted& granted);
  void Warn(const core::Batch& batch, const core::Event& event, Duration ttl);

  const TelemetryOptions options_;

  // Only the driver writes.
  Causes grants_{};
  Causes leases_ended_{};
  Causes waiters_left_{};
  Causes sessions_ended_{};
  Causes renewals_failed_{};
  Causes keepalives_failed_{};
  Counter waits_{0};
  Counter sessions_opened_{0};
  Counter revocations_{0};
  Counter short_ttl_grants_{0};
  Histogram lease_overrun_;

  // Only the driver.
  std::uint64_t tokens_of_ = 0;                              // the batch that `tokens_` is of
  std::vector<std::pair<core::Token, std::size_t>> tokens_;  // grant events of a batch, rising
  Timestamp warned_at_{};
  bool warned_ = false;
  std::uint64_t unwarned_ = 0;  // short grants since the last warning

  // Taken once for each batch.
  mutable std::mutex hot_mutex_;
  HotResources hot_;
};

}  // namespace holdfast::server
