// Holdfast against what a user would pick instead, in one run on one machine: Redis 7 with
// appendfsync always and single-node etcd with v3lock, each freshly started on loopback for every
// repetition. `holdfast bench peers`. The repetition is the outermost loop and the systems take
// turns inside it, because the speed of a machine drifts: ratios are taken inside one repetition,
// and only ratios are to be quoted.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "bench/recorder.h"
#include "holdfast/result.h"

namespace holdfast::bench {

struct PeersBenchOptions {
  std::string holdfast;                         // path of the binary; empty: only the peers run
  std::vector<std::string> holdfast_arguments;  // behind `server --data-dir DIR --listen HOST:PORT`
  std::string redis = "redis-server";           // path or name; empty: left out
  std::string etcd = "etcd";                    // path or name; empty: left out
  // Where the servers keep their data: has to be a disk, or fsync costs nothing.
  std::string work_dir = ".";
  // Connections with one operation outstanding each.
  std::vector<int> concurrency = {1, 16, 64, 256};
  bool unary = true;           // a row for Holdfast's unary calls too
  bool lease_per_lock = true;  // a row for etcd with a lease granted for each acquire too
  // One connection with that many operations outstanding, in every system. 0: no such rows.
  int shared = 64;
  int repetitions = 3;
  Duration warm_up = Seconds(1);
  Duration duration = Seconds(3);
  std::FILE* progress = nullptr;  // one line per measurement; null: none
};

// Whether one connection has all operations outstanding.
inline bool IsShared(std::string_view mode) {
  return mode == "shared" || mode == "resp-shared";
}

// Whether `to_redis` and `to_etcd` refer to rows of this mode: etcd with a reused lease.
inline bool IsReference(std::string_view mode) {
  return mode == "connections" || mode == "shared";
}

// One measurement.
struct PeerRow {
  std::string system;  // redis, etcd, holdfast
  // connections, lease-per-lock, resp, stream, unary, shared, resp-shared
  std::string mode;
  int concurrency = 0;
  int repetition = 0;  // from 1
  LoadResult load;
};

struct Ratio {
  double median = 0;
  double min = 0;
  double max = 0;
};

// The repetitions of one row together: medians, and pairs per second in relation to the peers of
// the same repetition, concurrency and kind (shared with shared).
struct PeerSummary {
  std::string system;
  std::string mode;
  int concurrency = 0;
  double pairs_per_s = 0;
  double p50_ms = 0;  // of a pair, as all of these
  double p95_ms = 0;
  double p99_ms = 0;
  double acquire_p99_ms = 0;
  double client_cpu_percent = 0;
  double server_cpu_percent = 0;
  double other_cpu_percent = 0;
  std::uint64_t errors = 0;  // sum of all repetitions, refusals included: nothing is contended
  Ratio to_redis;            // median 0: that peer was left out
  Ratio to_etcd;
};

struct PeersReport {
  PeersBenchOptions options;
  std::vector<PeerRow> rows;
};

// Blocks for about repetitions x rows x (warm-up + duration). kInvalidArgument names the option;
// kUnavailable with the end of its log if a server does not start. All servers and directories are
// gone when it returns.
Result<PeersReport> RunPeersBench(const PeersBenchOptions& options);

std::vector<PeerSummary> Summarize(const std::vector<PeerRow>& rows);
// {"rows": [...], "summary": [...], ...}; docs/PERFORMANCE.md lists the fields.
std::string ToJson(const PeersReport& report);
std::string ToText(const PeersReport& report);

}  // namespace holdfast::bench
