// The servers of one repetition of the peers bench.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/local_server.h"
#include "bench/peers_bench.h"
#include "bench/postgres_server.h"
#include "holdfast/result.h"

namespace holdfast::bench {

// What runs; empty: left out.
struct PeerPrograms {
  std::string redis;
  std::string etcd;
  std::string zookeeper;
  std::string redlock;
  std::optional<PostgresCluster> postgres;
};

// One freshly started server, or the servers of one cluster, with their data.
struct Running {
  std::optional<ScratchDirectory> directory;
  int port = 0;                 // where clients go: of a ZooKeeper, its leader's
  std::vector<int> ports = {};  // of Redlock's servers
  int second_port = 0;          // of etcd's peers, or of Holdfast's RESP listener
  std::string password;         // of PostgreSQL
  // Last, so that they end before their directory goes. None of a server that ran already.
  std::vector<LocalServer> servers = {};

  pid_t pid() const { return servers.empty() ? 0 : servers.front().pid(); }
  // Of the further members of a cluster.
  std::vector<pid_t> more_pids() const;
};

// Connections that are open at once.
int MostConnections(const PeersBenchOptions& options);

// HOST:PORT on loopback.
std::string Listen(int port);

// `system`: redis, etcd, zookeeper, redlock, postgresql or holdfast, none that is left out.
Result<std::unique_ptr<Running>> StartServer(const PeersBenchOptions& options,
                                             const PeerPrograms& programs,
                                             const std::string& system);

}  // namespace holdfast::bench
