// The capacity proof of the replicated shape, `holdfast bench capacity`: a cluster on this machine
// under the load that it has to carry, while etcd's leader dies, snapshots are made and the log is
// trimmed.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "base/time.h"
#include "bench/capacity_meter.h"
#include "bench/locks_bench.h"
#include "holdfast/result.h"

namespace holdfast::bench {

struct CapacityOptions {
  std::string holdfast;  // program
  std::string etcd = "etcd";
  std::string work_dir = ".";  // on a disk
  // Acquires, and as many renewals and releases, per second of an open loop. A fifth of the
  // acquires goes to contended resources.
  double rate = 2000;
  std::uint64_t resources = 100'000;
  int holds = 20'000;
  Duration warm_up = Seconds(25);
  Duration duration = Seconds(300);
  // Of request ids at `rate` the service has to remember when the load begins: as many as its
  // memory of 10 minutes will hold. 0: none are made beforehand.
  Duration remembered = Seconds(600);
  std::string snapshot_bytes = "32MiB";  // of log between two snapshots
  bool fault = true;  // kill etcd's leader after a third of the duration, start it after two
  // Afterwards the rate is raised by half, step by step, from `rate` on until it is not carried.
  bool until_it_breaks = false;
  Duration step = Seconds(20);
  std::FILE* progress = nullptr;  // null: none
};

// What the verdict wants.
inline constexpr double kAcquireP99LimitMs = 200;
// How long everything may stand at an election of etcd: its timeout, the vote, and the calls that
// have to be given up and sent to another member.
inline constexpr double kElectionGapLimitMs = 5000;

struct CapacityFault {
  double at_s = 0;  // of the measurement
  std::string what;
};

// The load as two: what meets nobody, with the holds, and what queues, gives up and vanishes.
struct CapacityLoads {
  BenchReport uncontended;
  BenchReport contended;
};

struct CapacityStep {
  double rate = 0;
  CapacityLoads loads;
  ClusterFigures figures;
  std::string failure;  // the load ended with this error
};

struct CapacityReport {
  CapacityOptions options;
  CapacityLoads loads;
  ClusterFigures figures;
  std::vector<CapacityFault> faults;
  double request_ids = 0;  // that were remembered when the load began
  std::vector<CapacityStep> steps;
};

// Blocks for minutes: the preload of the default options is 1.2 million pairs. Starts all servers
// and ends them. kInvalidArgument names the option; kUnavailable: a server did not come up.
Result<CapacityReport> RunCapacityBench(const CapacityOptions& options);

// The longest time without any completion that ended within 10 s after a fault (`near`), or apart
// from all faults.
double LongestGapMs(const CapacityReport& report, bool near);

// Why the proof is not passed; empty: it is.
std::vector<std::string> Shortcomings(const CapacityReport& report);
// Why the rate of a step was not carried; empty: it was.
std::string BreakOf(const CapacityStep& step);
// What was used up in a step, in words.
std::string BoundOf(const CapacityStep& step);

std::string ToJson(const CapacityReport& report);
std::string ToText(const CapacityReport& report);
// Latency of uncontended acquires over time in a logarithmic scale, with faults and limit, as SVG.
std::string ToPlot(const CapacityReport& report);

}  // namespace holdfast::bench
