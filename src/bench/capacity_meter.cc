#include "bench/capacity_meter.h"

#include <algorithm>
#include <optional>
#include <thread>

#include <fmt/core.h>
#include <unistd.h>

namespace holdfast::bench {
namespace {

struct Row {
  const char* metric;
  const char* label;
  double ClusterFigures::*figure;
  bool everywhere;  // each server counts all of it, so the most of them is meant and not the sum
};

constexpr Row kNodeRows[] = {
    {"holdfast_log_index", "", &ClusterFigures::commits, true},
    {"holdfast_commit_duration_seconds_sum", "", &ClusterFigures::commit_seconds, false},
    {"holdfast_commit_duration_seconds_count", "", &ClusterFigures::timed_commits, false},
    {"holdfast_journal_bytes_total", "", &ClusterFigures::log_bytes, false},
    {"holdfast_snapshots_total", "", &ClusterFigures::snapshots, false},
    {"holdfast_log_first_index", "", &ClusterFigures::trimmed_entries, true},
    {"holdfast_node_takeovers_total", "", &ClusterFigures::takeovers, false},
    {"holdfast_log_unknown_appends_total", "", &ClusterFigures::unknown_appends, false},
    {"holdfast_waits_total", "", &ClusterFigures::waits, true},
    {"holdfast_waiters_left_total", "cause=\"CANCELLED\"", &ClusterFigures::cancelled_waits, true},
    {"holdfast_waiters_left_total", "cause=\"WAIT_TIMED_OUT\"", &ClusterFigures::timed_out_waits,
     true},
    {"holdfast_leases_ended_total", "cause=\"EXPIRED\"", &ClusterFigures::expired_leases, true},
};

constexpr Row kEtcdRows[] = {
    {"etcd_disk_wal_fsync_duration_seconds_count", "", &ClusterFigures::etcd_fsyncs, false},
    {"etcd_disk_wal_fsync_duration_seconds_sum", "", &ClusterFigures::etcd_fsync_seconds, false},
    {"etcd_disk_backend_commit_duration_seconds_count", "", &ClusterFigures::etcd_backend_commits,
     false},
    {"etcd_network_client_grpc_received_bytes_total", "", &ClusterFigures::etcd_client_bytes,
     false},
    {"etcd_network_peer_sent_bytes_total", "", &ClusterFigures::etcd_peer_bytes, false},
};

template <typename Rows, typename Counters>
void Read(const Rows& rows, int server, const Result<Metrics>& metrics, Counters& counters) {
  if (!metrics.ok()) {
    return;
  }
  for (std::size_t row = 0; row < std::size(rows); ++row) {
    counters[{row, server}].Read(metrics->Sum(rows[row].metric, rows[row].label));
  }
}

template <typename Rows, typename Counters>
void Add(const Rows& rows, const Counters& counters, ClusterFigures& figures) {
  for (const auto& [key, counter] : counters) {
    const Row& row = rows[key.first];
    double& figure = figures.*row.figure;
    figure = row.everywhere ? std::max(figure, counter.risen()) : figure + counter.risen();
  }
}

}  // namespace

CapacityMeter::CapacityMeter(const ClusterServers* cluster)
    : cluster_(cluster), begin_(LoadClock::now()), cpu_at_begin_(SampleCpu(0)) {
  for (int member = 0; member < ClusterServers::kSize; ++member) {
    processes_.push_back({fmt::format("etcd {}", member), cluster_->EtcdPid(member), {}, {}, 0});
  }
  for (int node = 0; node < ClusterServers::kSize; ++node) {
    processes_.push_back({fmt::format("node {}", node), cluster_->NodePid(node), {}, {}, 0});
  }
  processes_.push_back({"client", getpid(), {}, {}, 0});
  SampleAll();
}

void CapacityMeter::SampleProcesses() {
  for (Process& process : processes_) {
    const std::optional<ProcessUsage> usage = SampleProcess(process.pid);
    if (!usage.has_value()) {
      continue;
    }
    process.cpu.Read(static_cast<double>(usage->cpu.count()));
    // Ours would be with what the members that have ended wrote.
    if (process.pid != getpid()) {
      process.written.Read(static_cast<double>(usage->written_bytes));
    }
    process.resident_most =
        std::max(process.resident_most, static_cast<double>(usage->resident_bytes));
  }
}

void CapacityMeter::SampleServers() {
  for (int server = 0; server < ClusterServers::kSize; ++server) {
    Read(kNodeRows, server, cluster_->NodeMetrics(server), node_);
    if (cluster_->EtcdPid(server) != 0) {
      Read(kEtcdRows, server, cluster_->EtcdMetrics(server), etcd_);
    }
  }
}

void CapacityMeter::SampleAll() {
  SampleProcesses();
  SampleServers();
}

void CapacityMeter::AfterRestart(int member) {
  Process& process = processes_[static_cast<std::size_t>(member)];
  process.pid = cluster_->EtcdPid(member);
  process.cpu.Restarted();
  process.written.Restarted();
  for (auto& [key, counter] : etcd_) {
    if (key.second == member) {
      counter.Restarted();
    }
  }
}

ClusterFigures CapacityMeter::Finish() {
  SampleAll();
  const Duration passed = LoadClock::now() - begin_;
  const auto nanos = static_cast<double>(passed.count());
  ClusterFigures figures;
  figures.seconds = nanos / 1e9;
  figures.cores = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  const Duration machine = SampleCpu(0).machine - cpu_at_begin_.machine;
  figures.machine_cpu_percent = 100 * static_cast<double>(machine.count()) / nanos;
  Add(kNodeRows, node_, figures);
  Add(kEtcdRows, etcd_, figures);
  for (const Process& process : processes_) {
    figures.processes.push_back({process.name, 100 * process.cpu.risen() / nanos,
                                 process.resident_most, process.written.risen()});
  }
  return figures;
}

}  // namespace holdfast::bench
