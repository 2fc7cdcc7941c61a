// What a cluster uses under a load: figures of its servers' /metrics, and of all processes.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <sys/types.h>

#include "base/time.h"
#include "bench/cluster_servers.h"
#include "bench/cpu_usage.h"
#include "bench/metrics_text.h"
#include "bench/recorder.h"

namespace holdfast::bench {

struct ProcessFigures {
  std::string name;
  double cpu_percent = 0;          // of one core
  double resident_bytes_most = 0;  // of the samples
  double written_bytes = 0;        // to storage; 0 of the client
};

// By how much each rose. Bytes and counts are of all servers together, unless it says otherwise.
struct ClusterFigures {
  double seconds = 0;
  double commits = 0;  // entries of the log, ticks included
  double commit_seconds = 0;
  double timed_commits = 0;  // that commit_seconds is the sum of
  double log_bytes = 0;
  double snapshots = 0;
  double trimmed_entries = 0;
  double takeovers = 0;
  double unknown_appends = 0;  // answers of etcd that left open whether an append was done
  double waits = 0;
  double cancelled_waits = 0;
  double timed_out_waits = 0;
  double expired_leases = 0;
  double etcd_fsyncs = 0;  // of the write-ahead logs
  double etcd_fsync_seconds = 0;
  double etcd_backend_commits = 0;
  double etcd_client_bytes = 0;  // received from clients
  double etcd_peer_bytes = 0;    // sent to other members
  double machine_cpu_percent = 0;
  int cores = 1;
  std::vector<ProcessFigures> processes;  // etcd's, the nodes', and the client, which is this one

  double CommitsPerSecond() const { return seconds > 0 ? commits / seconds : 0; }
  // Means; 0 without any.
  double CommitMs() const { return MeanMs(commit_seconds, timed_commits); }
  double EtcdFsyncMs() const { return MeanMs(etcd_fsync_seconds, etcd_fsyncs); }

 private:
  static double MeanMs(double sum_seconds, double count) {
    return count > 0 ? 1000 * sum_seconds / count : 0;
  }
};

class CapacityMeter {
 public:
  // Figures count from here. The cluster outlives the meter.
  explicit CapacityMeter(const ClusterServers* cluster);

  // To be called each second or so.
  void SampleProcesses();
  // Slower; asks all servers that answer.
  void SampleServers();
  // Before a member of etcd is killed, and after it was started again.
  void BeforeKill() { SampleAll(); }
  void AfterRestart(int member);

  ClusterFigures Finish();

 private:
  struct Process {
    std::string name;
    pid_t pid = 0;
    RisingCounter cpu;
    RisingCounter written;
    double resident_most = 0;
  };
  using Counters = std::map<std::pair<std::size_t, int>, RisingCounter>;  // by row and server

  void SampleAll();

  const ClusterServers* const cluster_;
  const LoadTime begin_;
  const CpuUsage cpu_at_begin_;
  std::vector<Process> processes_;
  Counters node_;
  Counters etcd_;
};

}  // namespace holdfast::bench
