// Load on the peers: lock + unlock pairs, in the same shape as RunLocksBench makes them on
// Holdfast. One thread each.
#pragma once

#include <cstdio>
#include <string>

#include <sys/types.h>

#include "base/time.h"
#include "bench/recorder.h"
#include "holdfast/result.h"

namespace holdfast::bench {

struct PeerLoadOptions {
  int port = 0;  // on 127.0.0.1
  int connections = 1;
  int outstanding = 1;  // operations on each connection, pipelined; each has a lock name of its own
  Duration warm_up = Seconds(1);
  Duration duration = Seconds(3);
  Duration ttl = Seconds(30);
  pid_t server_pid = 0;
  std::string password;  // of kPostgresUser; the other peers ask for none
  std::FILE* progress = nullptr;
  std::string progress_label;
};

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

// For start-up: each true if the server answers.
bool RespAnswers(int port);
bool EtcdAnswers(int port);
bool PostgresAnswers(int port);

}  // namespace holdfast::bench
