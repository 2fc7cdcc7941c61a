// Holdfast against what a user would pick instead, in one run on one machine: Redis 7 with
// appendfsync always, single-node etcd with v3lock and, without durability, PostgreSQL's advisory
// locks; on request ZooKeeper on three servers and Redlock over five such Redis. Each is freshly
// started on loopback for every repetition. `holdfast bench peers`. The
// repetition is the outermost loop and the systems take turns inside it, because the speed of a
// machine drifts: ratios are taken inside one repetition, and only ratios are to be quoted.
#pragma once

#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "bench/recorder.h"
#include "holdfast/result.h"

namespace holdfast::bench {

inline constexpr const char* kUsualRedis = "redis-server";
inline constexpr const char* kUsualEtcd = "etcd";
inline constexpr const char* kUsualPostgres = "/usr/lib/postgresql/15/bin";

struct PeersBenchOptions {
  std::string holdfast;                         // path of the binary; empty: only the peers run
  std::vector<std::string> holdfast_arguments;  // behind `server --data-dir DIR --listen HOST:PORT`
  // Path or name of a program, or the directory of PostgreSQL's programs. Unset: the usual one, and
  // the peer is left out if that is not there. Empty: left out.
  std::optional<std::string> redis;
  std::optional<std::string> etcd;
  std::optional<std::string> postgres;
  // Clusters, to stand beside a replicated Holdfast. Empty: left out, as is usual.
  std::string zookeeper;  // its jar; three servers
  std::string redlock;    // Redis' program; five servers
  // Load on freshly started ZooKeeper servers before the first measurement, since Java compiles
  // while it runs; with as many sessions as the largest number in `concurrency`. 0: none.
  Duration zookeeper_warm_up = Seconds(15);
  // Ports of servers on loopback that run already, and are not started afresh: a cluster. 0: none.
  int running_etcd = 0;
  int running_holdfast = 0;  // gRPC
  int running_resp = 0;      // Holdfast's RESP
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

// Whether every answer of the system comes after an fsync. PostgreSQL keeps advisory locks in
// memory only, and loses them with the server.
inline bool IsDurable(std::string_view system) {
  return system != "postgresql";
}

// Whether the ratios to a peer refer to its rows of this mode: to etcd's with a reused lease.
inline bool IsReference(std::string_view mode) {
  return mode == "connections" || mode == "shared";
}

// One measurement.
struct PeerRow {
  std::string system;  // redis, etcd, zookeeper, redlock, postgresql, holdfast
  // connections, lease-per-lock, advisory, resp, stream, unary, shared, resp-shared
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
  Ratio to_zookeeper;
  Ratio to_redlock;
};

// A peer that nobody asked to leave out.
struct LeftOut {
  std::string system;
  std::string reason;
};

struct PeersReport {
  PeersBenchOptions options;
  std::vector<LeftOut> left_out;
  std::vector<PeerRow> rows;
};

// Blocks for about repetitions x (rows x (warm-up + duration) + ZooKeeper's warm-up).
// kInvalidArgument names the option,
// also if a program that was named is not there;
// kUnavailable with the end of its log if a server does not start. All servers and directories are
// gone when it returns.
Result<PeersReport> RunPeersBench(const PeersBenchOptions& options);

std::vector<PeerSummary> Summarize(const std::vector<PeerRow>& rows);
// {"rows": [...], "summary": [...], ...}; docs/PERFORMANCE.md lists the fields.
std::string ToJson(const PeersReport& report);
std::string ToText(const PeersReport& report);

}  // namespace holdfast::bench
