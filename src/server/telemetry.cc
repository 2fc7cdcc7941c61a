#include "server/telemetry.h"

#include <algorithm>
#include <string>
#include <variant>

#include "base/log.h"

namespace holdfast::server {
namespace {

constexpr Duration kWarningPause = Seconds(60);

// A tick late is normal; a restart adds its grace.
constexpr std::array<double, 12> kOverrunBounds{0.1, 0.25, 0.5, 1,  2.5, 5,
                                                10,  20,   30,  60, 120, 300};

bool EndedByItself(core::Cause cause) {
  return cause == core::Cause::kExpired || cause == core::Cause::kSessionExpired ||
         cause == core::Cause::kUnconfirmed;
}

// The resource that a command is about; null for none.
struct ResourceOf {
  const std::string* operator()(const core::Acquire& o) const { return &o.resource; }
  const std::string* operator()(const core::Renew& o) const { return &o.resource; }
  const std::string* operator()(const core::Release& o) const { return &o.resource; }
  const std::string* operator()(const core::Cancel& o) const { return &o.resource; }
  const std::string* operator()(const core::Break& o) const { return &o.resource; }
  const std::string* operator()(const core::Proclaim& o) const { return &o.resource; }
  template <typename Other>
  const std::string* operator()(const Other& /*o*/) const {
    return nullptr;
  }
};

template <typename Causes>
CauseCounts Read(const Causes& causes) {
  CauseCounts counts;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    counts[i] = causes[i].load(std::memory_order_relaxed);
  }
  return counts;
}

}  // namespace

Telemetry::Telemetry(const TelemetryOptions& options)
    : options_(options), lease_overrun_(kOverrunBounds), hot_(options.hot_resources) {}

void Telemetry::OnApplied(const core::Batch& batch, const core::Applied& applied) {
  for (const core::Event& event : applied.events) {
    OnEvent(event);
  }
  for (const core::Outcome& outcome : applied.outcomes) {
    OnOutcome(batch, applied, outcome);
  }
  for (const core::Resolution& resolution : applied.resolutions) {
    OnOutcome(batch, applied, resolution.outcome);
  }
  CountHot(batch, applied);
}

void Telemetry::OnEvent(const core::Event& event) {
  switch (event.kind) {
    case core::EventKind::kGranted:
      return Count(grants_, event.cause);
    case core::EventKind::kEnded:
      Count(leases_ended_, event.cause);
      if (EndedByItself(event.cause)) {
        lease_overrun_.Record(event.late);
      }
      return;
    case core::EventKind::kRevoking:
      return Histogram::Bump(revocations_, std::uint64_t{1});
    case core::EventKind::kWaiting:
      return Histogram::Bump(waits_, std::uint64_t{1});
    case core::EventKind::kWaiterLeft:
      return Count(waiters_left_, event.cause);
    case core::EventKind::kSessionOpened:
      return Histogram::Bump(sessions_opened_, std::uint64_t{1});
    case core::EventKind::kSessionEnded:
      return Count(sessions_ended_, event.cause);
    case core::EventKind::kProclaimed:
    case core::EventKind::kConfirmed:
      return;
  }
}

void Telemetry::OnOutcome(const core::Batch& batch, const core::Applied& applied,
                          const core::Outcome& outcome) {
  if (const auto* granted = std::get_if<core::Granted>(&outcome)) {
    if (granted->ttl < options_.recommended_ttl_min) {
      OnGrant(batch, applied, *granted);
    }
  } else if (const auto* failed = std::get_if<core::NotRenewed>(&outcome)) {
    Count(renewals_failed_, failed->cause);
  } else if (const auto* kept = std::get_if<core::SessionKept>(&outcome);
             kept != nullptr && !kept->alive) {
    Count(keepalives_failed_, kept->cause);
  }
}

// A grant that repeats an earlier answer has no event in this batch, and counts no second time.
void Telemetry::OnGrant(const core::Batch& batch, const core::Applied& applied,
                        const core::Granted& granted) {
  if (tokens_of_ != batch.index) {
    tokens_of_ = batch.index;
    tokens_.clear();
    for (std::size_t i = 0; i < applied.events.size(); ++i) {
      if (applied.events[i].kind == core::EventKind::kGranted) {
        tokens_.emplace_back(applied.events[i].token, i);
      }
    }
  }
  const auto found = std::lower_bound(tokens_.begin(), tokens_.end(),
                                      std::pair<core::Token, std::size_t>(granted.token, 0));
  if (found == tokens_.end() || found->first != granted.token) {
    return;
  }
  Histogram::Bump(short_ttl_grants_, std::uint64_t{1});
  Warn(batch, applied.events[found->second], granted.ttl);
}

void Telemetry::Warn(const core::Batch& batch, const core::Event& event, Duration ttl) {
  if (warned_ && batch.time - warned_at_ < kWarningPause) {
    ++unwarned_;
    return;
  }
  log::Warning(
      "a grant has a ttl below the recommended minimum namespace={} resource={} principal={} "
      "ttl_ms={} recommended_ms={} unlogged={}",
      event.name_space, event.resource, event.principal, ToMillis(ttl),
      ToMillis(options_.recommended_ttl_min), unwarned_);
  warned_ = true;
  warned_at_ = batch.time;
  unwarned_ = 0;
}

void Telemetry::CountHot(const core::Batch& batch, const core::Applied& applied) {
  const std::lock_guard lock(hot_mutex_);
  hot_.Advance(batch.time);
  for (std::size_t i = 0; i < batch.commands.size(); ++i) {
    const core::Command& command = batch.commands[i];
    if (const std::string* resource = std::visit(ResourceOf(), command.body)) {
      hot_.Add(command.name_space, *resource, std::holds_alternative<core::Acquire>(command.body),
               std::holds_alternative<core::Queued>(applied.outcomes[i]));
    }
  }
}

TelemetryCounts Telemetry::Counts() const {
  TelemetryCounts counts;
  counts.grants = Read(grants_);
  counts.leases_ended = Read(leases_ended_);
  counts.waiters_left = Read(waiters_left_);
  counts.sessions_ended = Read(sessions_ended_);
  counts.renewals_failed = Read(renewals_failed_);
  counts.keepalives_failed = Read(keepalives_failed_);
  counts.waits = waits_.load(std::memory_order_relaxed);
  counts.sessions_opened = sessions_opened_.load(std::memory_order_relaxed);
  counts.revocations = revocations_.load(std::memory_order_relaxed);
  counts.short_ttl_grants = short_ttl_grants_.load(std::memory_order_relaxed);
  counts.lease_overrun_seconds = lease_overrun_.Read();
  return counts;
}

}  // namespace holdfast::server
