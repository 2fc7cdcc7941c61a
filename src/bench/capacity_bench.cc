#include "bench/capacity_bench.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include <fmt/core.h>
#include <grpcpp/grpcpp.h>
#include <linux/magic.h>
#include <sys/vfs.h>

#include "bench/capacity_load.h"
#include "bench/channel.h"
#include "bench/cluster_servers.h"
#include "bench/grpc_status.h"
#include "bench/requests.h"
#include "holdfast/v1/admin.grpc.pb.h"

namespace holdfast::bench {
namespace {

constexpr auto kTurn = std::chrono::milliseconds(200);
constexpr Duration kProcessInterval = Seconds(1);
constexpr Duration kServerInterval = Seconds(5);
constexpr Duration kPreloadPiece = Seconds(2);
// As long as the service remembers a request id: more time does not make it remember more of them.
constexpr Duration kPreloadMost = Seconds(600);
constexpr Duration kLeaderTimeout = Seconds(30);
constexpr Duration kCallTimeout = Seconds(10);
constexpr int kStepWarmUpPart = 4;  // of the step's time
constexpr double kStepFactor = 1.5;
constexpr int kStepsMost = 12;

Status Validate(const CapacityOptions& options) {
  if (!(options.rate >= 1 && options.rate <= 1e6)) {
    return InvalidArgument("rate", "1..1000000 per second", "bad rate");
  }
  if (options.duration < Seconds(3) || options.warm_up < Duration(0)) {
    return InvalidArgument("duration", "at least 3 s, and no negative warm-up", "bad duration");
  }
  if (options.resources < 1 || options.resources > 10'000'000) {
    return InvalidArgument("resources", "1..10000000", "bad number of resources");
  }
  if (options.holds < 0 || options.holds > 1'000'000) {
    return InvalidArgument("holds", "0..1000000", "bad number of holds");
  }
  if (options.step < Seconds(1)) {
    return InvalidArgument("step", "at least 1 s", "a step that is too short");
  }
  struct statfs file_system {};
  if (statfs(options.work_dir.c_str(), &file_system) != 0) {
    return InvalidArgument("work_dir", "an existing directory", "no such directory");
  }
  if (file_system.f_type == TMPFS_MAGIC) {
    return InvalidArgument("work_dir", "a directory on a disk",
                           options.work_dir + " is in memory, where fsync costs nothing");
  }
  if (!ProgramExists(options.etcd)) {
    return Error{ErrorCode::kUnavailable, options.etcd + " is not installed", "etcd", {}};
  }
  return {};
}

class Bench {
 public:
  Bench(const CapacityOptions& options, ClusterServers* cluster)
      : options_(options), cluster_(cluster) {
    report_.options = options;
  }

  Result<CapacityReport> Run() {
    for (const auto part : {&Bench::SetPolicy, &Bench::Preload, &Bench::Measure}) {
      if (Status done = (this->*part)(); !done.ok()) {
        return done.error();
      }
    }
    if (options_.until_it_breaks) {
      RaiseTheRate();
    }
    return std::move(report_);
  }

 private:
  void Say(const std::string& what) const {
    if (options_.progress != nullptr) {
      fmt::print(options_.progress, "{}\n", what);
      std::fflush(options_.progress);
    }
  }

  Result<int> Leader() const {
    const LoadTime deadline = LoadClock::now() + kLeaderTimeout;
    for (;;) {
      if (const std::optional<int> leader = cluster_->Leader(); leader.has_value()) {
        return *leader;
      }
      if (LoadClock::now() > deadline) {
        return Error{ErrorCode::kUnavailable, "no node leads", {}, {}};
      }
      std::this_thread::sleep_for(kTurn);
    }
  }

  // Room for the load; a release hands over at once.
  Status SetPolicy() {
    const Result<int> leader = Leader();
    if (!leader.ok()) {
      return leader.error();
    }
    const auto channel = MakeChannel(cluster_->NodeEndpoint(*leader), 0);
    v1::SetNamespaceRequest request;
    request.set_name("default");
    v1::Policy& policy = *request.mutable_policy();
    policy.set_protection(v1::FENCED);
    SetDuration(Duration(0), *policy.mutable_lock_delay());
    policy.set_holds_per_tenant(1'000'000);
    policy.set_request_bytes_per_tenant(std::uint64_t{1} << 30U);
    v1::NamespaceResponse response;
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + kCallTimeout);
    const grpc::Status status =
        v1::Admin::NewStub(channel)->SetNamespace(&context, request, &response);
    if (!status.ok()) {
      return ErrorOf(status).WithContext("SetNamespace");
    }
    if (response.outcome() != v1::NamespaceResponse::OK) {
      return Error{ErrorCode::kInternal,
                   "SetNamespace: " + v1::NamespaceResponse::Outcome_Name(response.outcome()),
                   {},
                   {}};
    }
    return {};
  }

  Result<double> RequestIds() const {
    const Result<int> leader = Leader();
    if (!leader.ok()) {
      return leader.error();
    }
    const Result<Metrics> metrics = cluster_->NodeMetrics(*leader);
    if (!metrics.ok()) {
      return metrics.error();
    }
    return metrics->Sum("holdfast_request_ids");
  }

  // Pairs as fast as they go, until enough request ids are remembered.
  Status Preload() {
    const double wanted =
        options_.rate * std::chrono::duration<double>(options_.remembered).count();
    const LoadTime deadline = LoadClock::now() + kPreloadMost;
    for (;;) {
      const Result<double> remembered = RequestIds();
      const Result<int> leader = Leader();
      if (!remembered.ok() || !leader.ok()) {
        return !remembered.ok() ? remembered.error() : leader.error();
      }
      report_.request_ids = *remembered;
      if (*remembered >= wanted || LoadClock::now() > deadline) {
        return {};
      }
      Say(fmt::format("preload: {:.0f} of {:.0f} request ids", *remembered, wanted));
      LocksBenchOptions load = UncontendedLoad(options_, 0);
      load.endpoints = {cluster_->NodeEndpoint(*leader)};
      load.mode = LoadMode::kShared;
      load.concurrency = 512;
      load.holds = 0;
      load.warm_up = Duration(0);
      load.duration = kPreloadPiece;
      const Result<BenchReport> done = RunLocksBench(load);
      if (!done.ok()) {
        return done.error().WithContext("preload");
      }
    }
  }

  Status Measure() {
    const Result<int> leader = Leader();
    if (!leader.ok()) {
      return leader.error();
    }
    Say(fmt::format("taking {} holds", options_.holds));
    CapacityLoad load(options_, cluster_->NodeEndpoint(*leader), options_.rate, options_.warm_up,
                      options_.duration);
    const std::optional<LoadTime> begun = load.Begun();
    Status watched;
    if (begun.has_value()) {
      watched = Watch(*begun + options_.warm_up, options_.duration, options_.fault);
    }
    Result<CapacityLoads> loads = load.Finish();
    if (!watched.ok() || !loads.ok()) {
      return !watched.ok() ? watched.error() : loads.error();
    }
    report_.loads = std::move(*loads);
    report_.figures = figures_;
    return {};
  }

  // Samples what the cluster uses from `from` on, and makes the faults. Goes on after a fault that
  // failed, since the load does too.
  Status Watch(LoadTime from, Duration duration, bool fault) {
    std::this_thread::sleep_until(from);
    CapacityMeter meter(cluster_);
    Status status;
    LoadTime processes_at = from + kProcessInterval;
    LoadTime servers_at = from + kServerInterval;
    std::optional<int> killed;
    bool over = !fault;
    for (LoadTime now = from; now < from + duration; now = LoadClock::now()) {
      if (!over && !killed.has_value() && now >= from + duration / 3) {
        killed = KillEtcdLeader(meter, from);
      } else if (!over && killed.has_value() && now >= from + duration * 2 / 3) {
        over = true;
        status = StartEtcd(*killed, meter, from);
      } else if (now >= servers_at) {
        servers_at += kServerInterval;
        meter.SampleServers();
      } else if (now >= processes_at) {
        processes_at += kProcessInterval;
        meter.SampleProcesses();
      }
      std::this_thread::sleep_until(std::min(from + duration, LoadClock::now() + kTurn));
    }
    figures_ = meter.Finish();
    return status;
  }

  void AddFault(LoadTime at, LoadTime from, const char* what) {
    report_.faults.push_back({std::chrono::duration<double>(at - from).count(), what});
    Say(what);
  }

  // Nobody is killed while nobody leads.
  std::optional<int> KillEtcdLeader(CapacityMeter& meter, LoadTime from) {
    meter.BeforeKill();
    const std::optional<int> leader = cluster_->EtcdLeader();
    if (leader.has_value()) {
      AddFault(LoadClock::now(), from, "etcd's leader killed");
      cluster_->KillEtcd(*leader);
    }
    return leader;
  }

  Status StartEtcd(int member, CapacityMeter& meter, LoadTime from) {
    AddFault(LoadClock::now(), from, "etcd member started");
    Status started = cluster_->StartEtcd(member);
    if (started.ok()) {
      meter.AfterRestart(member);
    }
    return started;
  }

  void RaiseTheRate() {
    double rate = options_.rate;
    for (int number = 0; number < kStepsMost; ++number, rate *= kStepFactor) {
      Say(fmt::format("step: {:.0f} per second", rate));
      const CapacityStep& step = report_.steps.emplace_back(RunStep(rate));
      if (!BreakOf(step).empty()) {
        return;
      }
    }
  }

  CapacityStep RunStep(double rate) {
    CapacityStep step;
    step.rate = rate;
    const Result<int> leader = Leader();
    if (!leader.ok()) {
      step.failure = leader.error().message;
      return step;
    }
    const Duration warm_up = options_.step / kStepWarmUpPart;
    CapacityLoad load(options_, cluster_->NodeEndpoint(*leader), rate, warm_up, options_.step);
    if (const std::optional<LoadTime> begun = load.Begun(); begun.has_value()) {
      if (Status watched = Watch(*begun + warm_up, options_.step, false); !watched.ok()) {
        step.failure = watched.error().message;
      }
      step.figures = figures_;
    }
    Result<CapacityLoads> loads = load.Finish();
    if (loads.ok()) {
      step.loads = std::move(*loads);
    } else {
      step.failure = loads.error().message;
    }
    return step;
  }

  const CapacityOptions& options_;
  ClusterServers* const cluster_;
  CapacityReport report_;
  ClusterFigures figures_;  // of the last Watch
};

}  // namespace

Result<CapacityReport> RunCapacityBench(const CapacityOptions& options) {
  if (Status valid = Validate(options); !valid.ok()) {
    return valid.error();
  }
  const Result<std::unique_ptr<ClusterServers>> cluster =
      ClusterServers::Start({.holdfast = options.holdfast,
                             .etcd = options.etcd,
                             .work_dir = options.work_dir,
                             .snapshot_bytes = options.snapshot_bytes});
  if (!cluster.ok()) {
    return cluster.error();
  }
  return Bench(options, cluster->get()).Run();
}

}  // namespace holdfast::bench
