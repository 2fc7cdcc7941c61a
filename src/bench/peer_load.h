// Load on the peers: lock + unlock pairs, in the same shape as RunLocksBench makes them on
// Holdfast. One thread each.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include <sys/types.h>

#include "base/time.h"
#include "bench/recorder.h"
#include "holdfast/result.h"

namespace holdfast::bench {

struct PeerLoadOptions {
  int port = 0;  // on 127.0.0.1
  // Of Redlock's servers, in place of `port`.
  std::vector<int> ports = {};
  int connections = 1;
  int outstanding = 1;  // operations on each connection, pipelined; each has a lock name of its own
  Duration warm_up = Seconds(1);
  Duration duration = Seconds(3);
  Duration ttl = Seconds(30);
  pid_t server_pid = 0;
  std::vector<pid_t> more_pids = {};  // further members of its cluster
  std::string password;               // of kPostgresUser; the other peers ask for none
  std::FILE* progress = nullptr;
  std::string progress_label;
};

inline Recorder::Options RecorderOf(const PeerLoadOptions& options, LoadTime begin) {
  return {.begin = begin,
          .warm_up = options.warm_up,
          .duration = options.duration,
          .server_pid = options.server_pid,
          .more_pids = options.more_pids,
          .progress = options.progress,
          .label = options.progress_label};
}

// Over epoll and hand-made RESP, the same for both: Redis with SET NAME VALUE NX PX TTL and EVALSHA
// of compare-and-delete, Holdfast with HOLDFAST.ACQUIRE and HOLDFAST.RELEASE. Every reply is
// checked: a lock that is not granted counts as refusal HELD, a lock that was gone at its release
// as RELEASE_GONE, an error reply as error REPLY. kUnavailable if a connection cannot be made or
// breaks.
enum class RespSystem { kRedis, kHoldfast };
Result<LoadResult> RunRespLoad(const PeerLoadOptions& options, RespSystem system);

// v3lock Lock and Unlock. kReused: each lock name has a lease that is granted before the
// measurement and serves all of its pairs. kPerLock: each pair has a lease of its own; LeaseGrant
// and Lock together are its acquire, Unlock and LeaseRevoke its release. A failed call counts under
// the name of its gRPC status.
enum class EtcdLease { kReused, kPerLock };
Result<LoadResult> RunEtcdLoad(const PeerLoadOptions& options, EtcdLease lease);

// Session-level advisory locks of PostgreSQL: pg_try_advisory_lock and pg_advisory_unlock as
// prepared statements on the number of the worker, which has a connection of its own; `outstanding`
// has to be
// 1. No durability: nothing is written to disk, and a failover loses every lock. A lock that is not
// granted counts as refusal HELD, one that was gone at its release as RELEASE_GONE, an error under
// its SQLSTATE. kUnavailable if a connection cannot be made or breaks. Returns when the server's
// processes for the sessions have ended, or after 10 s more; that needs server_pid.
inline constexpr const char* kPostgresUser = "bench";
Result<LoadResult> RunPostgresLoad(const PeerLoadOptions& options);

// Redlock over the servers on `ports`, of which each client has a connection to each; over epoll
// and hand-made RESP. To all in parallel: SET NAME VALUE NX PX TTL with a random value, then
// EVALSHA of compare-and-delete; both are done when a majority has said yes, and so is the wait of
// the client. A server that falls behind gets no more than kMostOwed commands ahead of its replies.
// A lock without a majority is given back everywhere and counts as refusal HELD, one that took
// longer than its TTL as EXPIRED, one that no majority had at its release as RELEASE_GONE, an error
// reply as error REPLY. kUnavailable if a connection cannot be made or breaks: no server is down.
inline constexpr int kRedlockServers = 5;
inline constexpr int kMostOwed = 64;
Result<LoadResult> RunRedlockLoad(const PeerLoadOptions& options);

// ZooKeeper's lock recipe, each connection a session: create of an ephemeral sequential child and
// getChildren are the acquire, delete is the release. A child that is not the lowest is deleted
// again and counts as refusal HELD, one that was gone at its release as RELEASE_GONE, an error
// under its name. Over epoll and the wire protocol by hand. kUnavailable if a session cannot be
// made or breaks. The sessions are closed when it returns, the nodes of the locks stay.
Result<LoadResult> RunZooKeeperLoad(const PeerLoadOptions& options);

// For start-up: each true if the server answers.
bool RespAnswers(int port);
bool EtcdAnswers(int port);
bool PostgresAnswers(int port);

}  // namespace holdfast::bench
