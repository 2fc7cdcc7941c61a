// The ZooKeeper servers of the peers bench.
#pragma once

#include <string>
#include <vector>

#include "bench/local_server.h"
#include "holdfast/result.h"

namespace holdfast::bench {

inline constexpr int kZooKeeperServers = 3;

struct ZooKeeperCluster {
  int leader_port = 0;  // where clients go
  std::vector<LocalServer> servers;

  // `jar`: ZooKeeper's, which names the others that it needs, as Debian's does. `count` servers,
  // or one alone, with their data below `directory`, on loopback; they write to disk before each
  // answer and are otherwise as ZooKeeper is shipped. Returns when all of them serve. kUnavailable
  // with the end of the log of a server that does not.
  static Result<ZooKeeperCluster> Start(const std::string& jar, const std::string& directory,
                                        int count);
};

}  // namespace holdfast::bench
