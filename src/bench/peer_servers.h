// The servers of one repetition of the peers bench.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "bench/local_server.h"
#include "bench/peers_bench.h"
#include "bench/postgres_server.h"
#include "holdfast/result.h"

namespace holdfast::bench {

// What runs; empty: left out.
struct PeerPrograms {
  std::string redis;
  std::string etcd;
  std::optional<PostgresCluster> postgres;
};

// One freshly started server with its data.
struct Running {
  std::optional<ScratchDirectory> directory;
  int port = 0;
  int second_port = 0;   // of etcd's peers, or of Holdfast's RESP listener
  std::string password;  // of PostgreSQL
  // Last, so that it ends before its directory goes. None of a server that ran already.
  std::optional<LocalServer> server;

  pid_t pid() const { return server.has_value() ? server->pid() : 0; }
};

// HOST:PORT on loopback.
std::string Listen(int port);

// `system`: redis, etcd, postgresql or holdfast, none that is left out.
Result<std::unique_ptr<Running>> StartServer(const PeersBenchOptions& options,
                                             const PeerPrograms& programs,
                                             const std::string& system);

}  // namespace holdfast::bench
