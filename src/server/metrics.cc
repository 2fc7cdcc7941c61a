#include "server/metrics.h"

#include <sstream>
#include <utility>

#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include "holdfast/v1/admin.pb.h"

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
  families.Gauge("holdfast_queue_depth", "Operations that wait for the journal.",
                 stats.engine.queue_depth);
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
  if (status.has_snapshot_age()) {
    families.Gauge("holdfast_snapshot_age_seconds", "Age of the newest snapshot.",
                   SecondsOf(status.snapshot_age()));
  }
}

void AddState(Families& families, const v1::GetStatusResponse& status) {
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

}  // namespace

std::string MetricsText(const v1::GetStatusResponse& status, const engine::RunnerStats& stats,
                        std::size_t watchers, const std::vector<FrontLoad>& fronts) {
  Families families;
  AddLog(families, status, stats);
  AddState(families, status);
  AddFronts(families, watchers, fronts);
  return families.Text();
}

}  // namespace holdfast::server
