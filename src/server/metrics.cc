#include "server/metrics.h"

#include <algorithm>
#include <initializer_list>
#include <sstream>
#include <utility>

#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include "holdfast/v1/admin.pb.h"
#include "server/telemetry.h"

namespace holdfast::server {
namespace {

using prometheus::MetricFamily;
using prometheus::MetricType;
using Labels = std::vector<prometheus::ClientMetric::Label>;

class Families {
 public:
  void Open(const char* name, MetricType type, const char* help) {
    families_.push_back({name, help, type, {}});
  }
  void Add(Labels&& labels, double value) {
    prometheus::ClientMetric metric;
    metric.label = std::move(labels);
    (families_.back().type == MetricType::Counter ? metric.counter.value : metric.gauge.value) =
        value;
    families_.back().metric.push_back(std::move(metric));
  }
  void Add(Labels&& labels, const HistogramData& data) {
    prometheus::ClientMetric metric;
    metric.label = std::move(labels);
    std::uint64_t count = 0;
    for (std::size_t i = 0; i < data.counts.size(); ++i) {
      count += data.counts[i];
      if (i < data.bounds.size()) {
        metric.histogram.bucket.push_back({count, data.bounds[i]});
      }
    }
    metric.histogram.sample_count = count;
    metric.histogram.sample_sum = data.sum;
    families_.back().metric.push_back(std::move(metric));
  }
  // One sample for each of the causes that are expected, and for others that did occur.
  void ByCause(const char* name, const char* help, const CauseCounts& counts,
               std::initializer_list<core::Cause> expected) {
    Open(name, MetricType::Counter, help);
    CauseCounts shown = counts;
    for (const core::Cause cause : expected) {
      shown[static_cast<std::size_t>(cause)] += 1;
    }
    for (std::size_t i = 0; i < counts.size(); ++i) {
      if (shown[i] > 0) {
        Add({{"cause", core::CauseName(static_cast<core::Cause>(i))}},
            static_cast<double>(counts[i]));
      }
    }
  }
  void OneHistogram(const char* name, const char* help, const HistogramData& data) {
    Open(name, MetricType::Histogram, help);
    Add({}, data);
  }
  template <typename Number>
  void Counter(const char* name, const char* help, Number value) {
    Open(name, MetricType::Counter, help);
    Add({}, static_cast<double>(value));
  }
  template <typename Number>
  void Gauge(const char* name, const char* help, Number value) {
    Open(name, MetricType::Gauge, help);
    Add({}, static_cast<double>(value));
  }
  std::string Text() const {
    std::ostringstream text;
    prometheus::TextSerializer().Serialize(text, families_);
    return text.str();
  }

 private:
  std::vector<MetricFamily> families_;
};

double SecondsOf(const google::protobuf::Duration& duration) {
  return static_cast<double>(duration.seconds()) + static_cast<double>(duration.nanos()) / 1e9;
}

void AddLog(Families& families, const v1::GetStatusResponse& status,
            const engine::RunnerStats& stats) {
  families.Open("holdfast_operations_total", MetricType::Counter,
                "Commands that were committed, and reads that were answered.");
  families.Add({{"kind", "command"}}, static_cast<double>(stats.engine.commands));
  families.Add({{"kind", "read"}}, static_cast<double>(stats.engine.reads));
  families.Counter("holdfast_overloaded_total", "Requests refused because the queue was full.",
                   stats.engine.overloaded);
  families.Counter("holdfast_batches_total", "Batches that were committed, ticks included.",
                   stats.engine.batches);
  families.Counter("holdfast_journal_syncs_total", "Times that the journal was synced.",
                   stats.journal.syncs);
  families.Counter("holdfast_journal_bytes_total", "Bytes appended to the journal.",
                   stats.journal.bytes_appended);
  families.OneHistogram("holdfast_journal_sync_duration_seconds", "How long a sync took.",
                        stats.journal.sync_seconds);
  families.OneHistogram("holdfast_commit_duration_seconds",
                        "From the seal of a batch with commands until it was applied.",
                        stats.commit_seconds);
  families.OneHistogram("holdfast_batch_commands", "Commands of a batch that has any.",
                        stats.batch_commands);
  families.OneHistogram("holdfast_batch_bytes", "Encoded size of a batch with commands.",
                        stats.batch_bytes);
  families.Gauge("holdfast_queue_depth", "Operations that wait for the engine or the journal.",
                 stats.engine.queue_depth + stats.inbox);
  families.Gauge("holdfast_accepting_writes", "1, or 0 while the log cannot be written.",
                 stats.accepting_writes ? 1 : 0);
  families.Gauge("holdfast_log_index", "Position of the newest batch.", status.index());
  families.Gauge("holdfast_log_first_index", "Position of the oldest batch that is kept.",
                 stats.journal_first_index);
  families.Gauge("holdfast_epoch", "Number of this start of the log's writer.", status.epoch());
  families.Gauge("holdfast_shadow_lag_entries", "Entries that the shadow copy is behind.",
                 status.shadow_lag());
  families.Gauge("holdfast_snapshot_index", "Log position of the newest snapshot.",
                 status.snapshot_index());
  families.Counter("holdfast_snapshots_total", "Snapshots made since the start.",
                   stats.shadow.snapshots);
  if (status.has_snapshot_age()) {
    families.Gauge("holdfast_snapshot_age_seconds", "Age of the newest snapshot.",
                   SecondsOf(status.snapshot_age()));
  }
}

// Of an embedded server: it leads, alone.
void AddCluster(Families& families, const engine::RunnerStats& stats) {
  engine::MemberStatus alone;
  alone.role = engine::Role::kLeading;
  const engine::MemberStatus& member = stats.member.has_value() ? *stats.member : alone;
  const auto alive = std::count_if(member.peers.begin(), member.peers.end(),
                                   [](const engine::PeerState& peer) { return peer.alive; });
  families.Gauge("holdfast_node_leads", "1 if this node leads.",
                 member.role == engine::Role::kLeading ? 1 : 0);
  families.Gauge("holdfast_node_failed", "1 if this node must not go on, and refuses everything.",
                 member.role == engine::Role::kFailed ? 1 : 0);
  families.Gauge("holdfast_node_phi", "How sure a standby is that the leader is gone.", member.phi);
  families.Gauge("holdfast_nodes_alive", "Nodes of the cluster that live, as this one sees it.",
                 std::max<std::ptrdiff_t>(alive, 1));
  families.Counter("holdfast_node_takeovers_total", "Leaderships that this node has begun.",
                   member.takeovers);
  families.Counter("holdfast_log_unknown_appends_total",
                   "Answers of etcd that left open whether an append was done.",
                   member.unknown_appends);
  std::uint64_t db_bytes = 0;
  for (const journal::etcd::EndpointHealth& endpoint : member.store) {
    db_bytes = std::max(db_bytes, endpoint.db_bytes);
  }
  families.Gauge("holdfast_etcd_db_bytes", "Size of the largest store of etcd's members.",
                 db_bytes);
  families.Gauge("holdfast_etcd_quota_bytes", "Their space quota, as this node was told.",
                 member.store_quota_bytes);
  families.Gauge("holdfast_etcd_full", "1 if nothing new is granted because etcd is nearly full.",
                 member.store_full ? 1 : 0);
  families.Counter("holdfast_log_relists_total", "Watches of the log that had to begin anew.",
                   member.relists);
}

void AddState(Families& families, const v1::GetStatusResponse& status,
              const engine::RunnerStats& stats) {
  families.Gauge("holdfast_resources", "Resources that the state knows.", status.resources());
  families.Gauge("holdfast_holds", "Locks that are held.", status.holds());
  families.Gauge("holdfast_waiters", "Requests in the queues of locks.", status.waiters());
  families.Gauge("holdfast_sessions", "Sessions that live.", status.sessions());
  families.Gauge("holdfast_request_ids", "Request ids that are remembered.", status.request_ids());
  families.Gauge("holdfast_fencing_token", "The newest fencing token.", status.fencing_token());
  families.Gauge("holdfast_expiry_lag_seconds",
                 "How far processing lags behind the oldest deadline that is due.",
                 SecondsOf(status.expiry_lag()));
  families.Gauge("holdfast_grants_blocked_seconds",
                 "How long nothing will be granted yet, after a recovery with lost state.",
                 SecondsOf(status.grants_blocked_for()));
  families.Gauge("holdfast_state_time_seconds", "State time of the log.",
                 SecondsOf(status.state_time()));
  families.Gauge("holdfast_state_time_lag_seconds",
                 "How much less state time has advanced than the clock since the start.",
                 static_cast<double>(stats.state_time_lag.count()) * 1e-9);
  families.Gauge("holdfast_uptime_seconds", "Time since this process began to serve.",
                 SecondsOf(status.uptime()));
  families.Open("holdfast_build_info", MetricType::Gauge, "Always 1; the version is a label.");
  families.Add({{"version", status.version()}}, 1);
}

void AddFronts(Families& families, std::size_t watchers, const std::vector<FrontLoad>& fronts) {
  const auto by_front = [&](const char* name, const char* help,
                            std::size_t FrontCounters::*counter) {
    families.Open(name, MetricType::Gauge, help);
    for (const FrontLoad& load : fronts) {
      families.Add({{"front", load.front}}, static_cast<double>(load.counters.*counter));
    }
  };
  families.Gauge("holdfast_watchers", "Subscriptions to changes, of all fronts.", watchers);
  by_front("holdfast_front_open_calls", "Calls that are open, of any kind.", &FrontCounters::calls);
  by_front("holdfast_front_open_streams", "Streams of operations that are open.",
           &FrontCounters::streams);
  by_front("holdfast_front_open_watches", "Watches and observers that are open.",
           &FrontCounters::watches);
  by_front("holdfast_front_engine_requests", "Requests that the engine owes an answer.",
           &FrontCounters::requests);
}

void AddRequests(Families& families, const std::vector<FrontLoad>& fronts) {
  std::vector<const RequestMeter*> meters;
  for (const FrontLoad& load : fronts) {
    meters.push_back(load.meter);
  }
  const RequestCounts counts = RequestMeter::Sum(meters);
  families.Open("holdfast_requests_total", MetricType::Counter, "Requests by what was answered.");
  for (const RequestCounts::Outcome& outcome : counts.outcomes) {
    families.Add({{"verb", outcome.verb}, {"outcome", outcome.outcome}},
                 static_cast<double>(outcome.count));
  }
  families.Open("holdfast_request_duration_seconds", MetricType::Histogram,
                "From the arrival of a request in its front until its reply, without those that "
                "stood in the queue of a lock.");
  for (const RequestCounts::Latency& latency : counts.latencies) {
    families.Add({{"verb", latency.verb}}, latency.seconds);
  }
  families.OneHistogram("holdfast_wait_duration_seconds",
                        "The same, of requests that stood in the queue of a lock.",
                        counts.wait_seconds);
  families.Open("holdfast_token_checks_total", MetricType::Counter,
                "Fencing tokens that were asked about, by the verdict.");
  for (std::size_t verdict = 1; verdict < counts.token_checks.size(); ++verdict) {
    families.Add({{"verdict", core::TokenVerdictName(static_cast<core::TokenVerdict>(verdict))}},
                 static_cast<double>(counts.token_checks[verdict]));
  }
  families.Open("holdfast_front_denied_total", MetricType::Counter,
                "Calls refused as unauthenticated or not permitted.");
  for (const FrontLoad& load : fronts) {
    families.Add({{"front", load.front}}, static_cast<double>(load.meter->denied()));
  }
  families.Open("holdfast_front_turned_away_total", MetricType::Counter,
                "Calls or connections refused because max_calls were open.");
  for (const FrontLoad& load : fronts) {
    families.Add({{"front", load.front}}, static_cast<double>(load.meter->turned_away()));
  }
}

void AddLeases(Families& families, const Telemetry& telemetry) {
  using core::Cause;
  const TelemetryCounts counts = telemetry.Counts();
  families.ByCause("holdfast_grants_total", "Leases that began.", counts.grants,
                   {Cause::kAcquired, Cause::kHandedOver});
  families.ByCause(
      "holdfast_leases_ended_total", "Leases that ended.", counts.leases_ended,
      {Cause::kReleased, Cause::kExpired, Cause::kSessionClosed, Cause::kSessionExpired,
       Cause::kBroken, Cause::kUnconfirmed, Cause::kCancelled});
  families.OneHistogram("holdfast_lease_overrun_seconds",
                        "How long after its promise a lease ended that nobody ended.",
                        counts.lease_overrun_seconds);
  families.Counter("holdfast_revocations_total", "Leases that an administrator broke.",
                   counts.revocations);
  families.Counter("holdfast_waits_total", "Requests that entered the queue of a lock.",
                   counts.waits);
  families.ByCause("holdfast_waiters_left_total", "Waiters that left without a grant.",
                   counts.waiters_left,
                   {Cause::kCancelled, Cause::kWaitTimedOut, Cause::kDetachedTooLong,
                    Cause::kSessionClosed, Cause::kSessionExpired});
  families.Counter("holdfast_sessions_opened_total", "Sessions that were opened.",
                   counts.sessions_opened);
  families.ByCause("holdfast_sessions_ended_total", "Sessions that ended.", counts.sessions_ended,
                   {Cause::kSessionClosed, Cause::kSessionExpired});
  families.ByCause("holdfast_renewals_failed_total", "Renewals of leases that were refused.",
                   counts.renewals_failed,
                   {Cause::kReleased, Cause::kExpired, Cause::kSessionExpired, Cause::kBroken,
                    Cause::kUnconfirmed, Cause::kNeverHeld, Cause::kHoldLimit, Cause::kRevoking});
  families.ByCause("holdfast_keepalives_failed_total", "Keepalives of sessions that are over.",
                   counts.keepalives_failed,
                   {Cause::kSessionClosed, Cause::kSessionExpired, Cause::kNeverHeld});
  families.Counter("holdfast_short_ttl_grants_total",
                   "Grants whose ttl is below the recommended minimum.", counts.short_ttl_grants);
  families.Gauge("holdfast_recommended_ttl_min_seconds",
                 "The recommended minimum of a ttl, from the ttl options.",
                 static_cast<double>(telemetry.recommended_ttl_min().count()) * 1e-9);
}

}  // namespace

std::string MetricsText(const MetricsSources& sources) {
  Families families;
  AddRequests(families, sources.fronts);
  AddLeases(families, sources.telemetry);
  AddLog(families, sources.status, sources.stats);
  AddCluster(families, sources.stats);
  AddState(families, sources.status, sources.stats);
  AddFronts(families, sources.watchers, sources.fronts);
  return families.Text();
}

}  // namespace holdfast::server
