#include "bench/zookeeper_server.h"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include <fmt/core.h>

#include "bench/load_loop.h"
#include "bench/zookeeper_wire.h"

namespace holdfast::bench {
namespace {

// A virtual machine starts slowly on a busy machine, and there is an election.
constexpr Duration kStartTimeout = Seconds(60);

struct Member {
  std::string directory;
  int port = 0;
  int quorum_port = 0;
  int election_port = 0;
};

Result<std::vector<Member>> Members(const std::string& directory, int count) {
  const Result<std::vector<int>> ports = FreePorts(3 * count);
  if (!ports.ok()) {
    return ports.error();
  }
  std::vector<Member> members;
  for (std::size_t i = 0; i < ports->size(); i += 3) {
    members.push_back({.directory = fmt::format("{}/{}", directory, members.size() + 1),
                       .port = (*ports)[i],
                       .quorum_port = (*ports)[i + 1],
                       .election_port = (*ports)[i + 2]});
  }
  return members;
}

// All that is not here is as shipped: above all forceSync is on. The ticks are those of the example
// that comes with it, the limit of connections from one address is off.
Status Configure(const std::vector<Member>& members, std::size_t number) {
  const Member& member = members[number];
  std::error_code failed;
  std::filesystem::create_directories(member.directory + "/data", failed);
  std::ofstream(member.directory + "/data/myid") << number + 1 << '\n';
  std::ofstream file(member.directory + "/zoo.cfg");
  file << "tickTime=2000\ninitLimit=10\nsyncLimit=5\n"
       << "dataDir=" << member.directory << "/data\n"
       << "clientPort=" << member.port << "\nclientPortAddress=127.0.0.1\n"
       << "maxClientCnxns=0\nmaxSessionTimeout=120000\n"
       << "admin.enableServer=false\n4lw.commands.whitelist=srvr\n";
  for (std::size_t i = 0; members.size() > 1 && i < members.size(); ++i) {
    file << fmt::format("server.{}=127.0.0.1:{}:{}\n", i + 1, members[i].quorum_port,
                        members[i].election_port);
  }
  file.close();
  return file ? Status()
              : Error{ErrorCode::kIo, "cannot write " + member.directory + "/zoo.cfg", {}, {}};
}

std::vector<std::string> Command(const std::string& jar, const Member& member) {
  // Debian's jar names no logger. This one lies beside it, and Java passes over what is not there.
  const std::string logger =
      (std::filesystem::path(jar).parent_path() / "slf4j-simple.jar").string();
  return {"java",
          "-Xmx1000m",
          "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
          "-cp",
          jar + ":" + logger,
          "org.apache.zookeeper.server.quorum.QuorumPeerMain",
          member.directory + "/zoo.cfg"};
}

}  // namespace

Result<ZooKeeperCluster> ZooKeeperCluster::Start(const std::string& jar,
                                                 const std::string& directory, int count) {
  const Result<std::vector<Member>> members =
      Members(std::filesystem::absolute(directory).string(), count);
  if (!members.ok()) {
    return members.error();
  }
  ZooKeeperCluster cluster;
  for (std::size_t i = 0; i < members->size(); ++i) {
    if (Status done = Configure(*members, i); !done.ok()) {
      return done.error();
    }
    // The first ones cannot serve before there is a majority; with the last one, all have to.
    const auto all_serve = [&members] {
      return std::all_of(members->begin(), members->end(),
                         [](const Member& one) { return !ZooKeeperMode(one.port).empty(); });
    };
    const auto listens = [port = (*members)[i].port] { return ConnectTo(port).ok(); };
    LocalServer::Options options{.name = "zookeeper",
                                 .command = Command(jar, (*members)[i]),
                                 .log_file = (*members)[i].directory + "/log",
                                 .ready = listens,
                                 .start_timeout = kStartTimeout};
    if (i + 1 == members->size()) {
      options.ready = all_serve;
    }
    Result<LocalServer> server = LocalServer::Start(std::move(options));
    if (!server.ok()) {
      return server.error();
    }
    cluster.servers.push_back(std::move(*server));
  }
  const auto leader = std::find_if(members->begin(), members->end(), [](const Member& member) {
    return ZooKeeperMode(member.port) != "follower";
  });
  if (leader == members->end()) {
    return Error{ErrorCode::kUnavailable, "zookeeper: no server leads", {}, {}};
  }
  cluster.leader_port = leader->port;
  return cluster;
}

}  // namespace holdfast::bench
