#include "bench/cluster_servers.h"

#include <chrono>
#include <set>
#include <thread>
#include <utility>

#include <fmt/core.h>
#include <signal.h>

#include "bench/recorder.h"

namespace holdfast::bench {
namespace {

constexpr Duration kMetricsTimeout = Seconds(5);
constexpr Duration kLeaderTimeout = Seconds(30);
// One of the fifteen ports may be taken by somebody else before it is used.
constexpr int kAttempts = 3;
constexpr auto kPollInterval = std::chrono::milliseconds(50);

// For zones with a round trip below 5 ms. etcd wants an election timeout of at least ten round
// trips and of five heartbeats; its defaults of 100 and 1000 ms are for slower networks, and the
// timeout is how long everything stands when etcd's leader dies. A snapshot each 10,000 proposals
// is what a run of some minutes sees several of.
constexpr const char* kEtcdHeartbeat = "50";
constexpr const char* kEtcdElectionTimeout = "500";
constexpr const char* kEtcdSnapshotCount = "10000";

std::string Address(int port) {
  return fmt::format("127.0.0.1:{}", port);
}

std::string Url(int port) {
  return "http://" + Address(port);
}

// Asks until it says yes; false if it does not in time.
template <typename Condition>
bool Becomes(const Condition& condition) {
  const LoadTime deadline = LoadClock::now() + kLeaderTimeout;
  while (!condition()) {
    if (LoadClock::now() > deadline) {
      return false;
    }
    std::this_thread::sleep_for(kPollInterval);
  }
  return true;
}

}  // namespace

ClusterServers::ClusterServers(Options options, ScratchDirectory directory)
    : options_(std::move(options)), directory_(std::move(directory)) {}

Result<std::unique_ptr<ClusterServers>> ClusterServers::Start(const Options& options) {
  for (int attempt = 1;; ++attempt) {
    Result<ScratchDirectory> directory = ScratchDirectory::Create(options.work_dir);
    if (!directory.ok()) {
      return directory.error();
    }
    std::unique_ptr<ClusterServers> cluster(new ClusterServers(options, std::move(*directory)));
    const Status started = cluster->StartAll();
    if (started.ok()) {
      return cluster;
    }
    if (attempt == kAttempts) {
      return started.error();
    }
  }
}

Status ClusterServers::ChoosePorts() {
  std::set<int> taken;
  const auto choose = [&taken](int& port) -> Status {
    do {
      const Result<int> free = FreePort();
      if (!free.ok()) {
        return free.error();
      }
      port = *free;
    } while (!taken.insert(port).second);
    return {};
  };
  for (std::size_t i = 0; i < kSize; ++i) {
    for (int* port : {&etcd_[i].port, &etcd_[i].second_port, &nodes_[i].port,
                      &nodes_[i].second_port, &nodes_[i].http_port}) {
      if (Status chosen = choose(*port); !chosen.ok()) {
        return chosen;
      }
    }
    etcd_[i].http_port = etcd_[i].port;
    etcd_[i].log = fmt::format("{}/etcd{}.log", directory_.path(), i);
    nodes_[i].log = fmt::format("{}/node{}.log", directory_.path(), i);
  }
  return {};
}

Status ClusterServers::StartAll() {
  if (Status chosen = ChoosePorts(); !chosen.ok()) {
    return chosen;
  }
  // A member does not answer before there is a majority.
  if (Status first = StartEtcd(0, [] { return true; }); !first.ok()) {
    return first;
  }
  for (int member = 1; member < kSize; ++member) {
    if (Status started = StartEtcd(member); !started.ok()) {
      return started;
    }
  }
  if (!Becomes([this] { return EtcdLeader().has_value(); })) {
    return Error{ErrorCode::kUnavailable, "the members of etcd did not elect a leader", {}, {}};
  }
  for (int node = 0; node < kSize; ++node) {
    if (Status started = StartNode(node); !started.ok()) {
      return started;
    }
  }
  if (!Becomes([this] { return Leader().has_value(); })) {
    return Error{ErrorCode::kUnavailable, "none of the nodes became the leader", {}, {}};
  }
  return {};
}

LocalServer::Options ClusterServers::EtcdProcess(int member) const {
  std::string members;
  for (std::size_t i = 0; i < kSize; ++i) {
    members += fmt::format("{}e{}={}", i == 0 ? "" : ",", i, Url(etcd_[i].second_port));
  }
  const Process& process = etcd_[Index(member)];
  LocalServer::Options start;
  start.name = fmt::format("etcd {}", member);
  start.log_file = process.log;
  start.command = {options_.etcd,
                   "--name",
                   fmt::format("e{}", member),
                   "--data-dir",
                   fmt::format("{}/etcd{}", directory_.path(), member),
                   "--listen-client-urls",
                   Url(process.port),
                   "--advertise-client-urls",
                   Url(process.port),
                   "--listen-peer-urls",
                   Url(process.second_port),
                   "--initial-advertise-peer-urls",
                   Url(process.second_port),
                   "--initial-cluster",
                   members,
                   "--heartbeat-interval",
                   kEtcdHeartbeat,
                   "--election-timeout",
                   kEtcdElectionTimeout,
                   "--snapshot-count",
                   kEtcdSnapshotCount,
                   "--log-level",
                   "warn"};
  return start;
}

Status ClusterServers::StartEtcd(int member) {
  return StartEtcd(member, [this, member] { return EtcdMetrics(member).ok(); });
}

Status ClusterServers::StartEtcd(int member, std::function<bool()> ready) {
  LocalServer::Options start = EtcdProcess(member);
  start.ready = std::move(ready);
  Result<LocalServer> started = LocalServer::Start(std::move(start));
  if (!started.ok()) {
    return started.error();
  }
  etcd_[Index(member)].server.emplace(std::move(*started));
  return {};
}

Status ClusterServers::StartNode(int node) {
  Process& process = nodes_[Index(node)];
  LocalServer::Options start;
  start.name = fmt::format("node {}", node);
  start.log_file = process.log;
  start.command = {options_.holdfast,
                   "server",
                   "--data-dir",
                   fmt::format("{}/node{}", directory_.path(), node),
                   "--etcd",
                   fmt::format("{},{},{}", Address(etcd_[0].port), Address(etcd_[1].port),
                               Address(etcd_[2].port)),
                   "--node",
                   fmt::format("n{}", node),
                   "--zone",
                   fmt::format("zone{}", node),
                   "--node-listen",
                   Address(process.second_port),
                   "--listen",
                   Address(process.port),
                   "--http",
                   Address(process.http_port),
                   "--set",
                   "snapshot_bytes=" + options_.snapshot_bytes};
  start.ready = [this, node] { return NodeMetrics(node).ok(); };
  Result<LocalServer> started = LocalServer::Start(std::move(start));
  if (!started.ok()) {
    return started.error();
  }
  process.server.emplace(std::move(*started));
  return {};
}

pid_t ClusterServers::EtcdPid(int member) const {
  const std::optional<LocalServer>& server = etcd_[Index(member)].server;
  return server.has_value() ? server->pid() : 0;
}

Result<Metrics> ClusterServers::EtcdMetrics(int member) const {
  return FetchMetrics(etcd_[Index(member)].http_port, kMetricsTimeout);
}

Result<Metrics> ClusterServers::NodeMetrics(int node) const {
  return FetchMetrics(nodes_[Index(node)].http_port, kMetricsTimeout);
}

std::string ClusterServers::NodeEndpoint(int node) const {
  return Address(nodes_[Index(node)].port);
}

std::optional<int> ClusterServers::EtcdLeader() const {
  for (int member = 0; member < kSize; ++member) {
    if (EtcdPid(member) == 0) {
      continue;
    }
    const Result<Metrics> metrics = EtcdMetrics(member);
    if (metrics.ok() && metrics->Sum("etcd_server_is_leader") == 1) {
      return member;
    }
  }
  return std::nullopt;
}

std::optional<int> ClusterServers::Leader() const {
  std::optional<int> leader;
  double newest = -1;
  for (int node = 0; node < kSize; ++node) {
    const Result<Metrics> metrics = NodeMetrics(node);
    if (metrics.ok() && metrics->Sum("holdfast_node_leads") == 1 &&
        metrics->Sum("holdfast_epoch") > newest) {
      leader = node;
      newest = metrics->Sum("holdfast_epoch");
    }
  }
  return leader;
}

void ClusterServers::KillEtcd(int member) {
  std::optional<LocalServer>& server = etcd_[Index(member)].server;
  kill(server->pid(), SIGKILL);
  server.reset();
}

}  // namespace holdfast::bench
