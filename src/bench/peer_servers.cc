#include "bench/peer_servers.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "bench/channel.h"
#include "bench/peer_load.h"
#include "bench/zookeeper_server.h"

namespace holdfast::bench {
namespace {

bool HoldfastAnswers(int port) {
  const auto channel = MakeChannel(Listen(port), 0);
  return WaitConnected(*channel, Listen(port), LoadClock::now() + Millis(200)).ok();
}

std::vector<std::string> RedisCommand(const std::string& binary, const std::string& data,
                                      int port) {
  // No automatic rewrite of the AOF: it would run into the measurements of the others too.
  return {binary,
          "--port",
          std::to_string(port),
          "--bind",
          "127.0.0.1",
          "--dir",
          data,
          "--appendonly",
          "yes",
          "--appendfsync",
          "always",
          "--save",
          "",
          "--auto-aof-rewrite-percentage",
          "0"};
}

std::vector<std::string> EtcdCommand(const std::string& binary, const std::string& data, int port,
                                     int peer_port) {
  const std::string client = "http://" + Listen(port);
  const std::string peer = "http://" + Listen(peer_port);
  return {binary,
          "--name",
          "bench",
          "--data-dir",
          data,
          "--listen-client-urls",
          client,
          "--advertise-client-urls",
          client,
          "--listen-peer-urls",
          peer,
          "--initial-advertise-peer-urls",
          peer,
          "--initial-cluster",
          "bench=" + peer,
          "--log-level",
          "warn"};
}

std::vector<std::string> HoldfastCommand(const PeersBenchOptions& options, const std::string& data,
                                         int port, int resp_port) {
  std::vector<std::string> command = {
      options.holdfast, "server",     "--data-dir", data,
      "--listen",       Listen(port), "--resp",     Listen(resp_port)};
  command.insert(command.end(), options.holdfast_arguments.begin(),
                 options.holdfast_arguments.end());
  return command;
}

LocalServer::Options RedisServer(const std::string& binary, const std::string& directory,
                                 int port) {
  const std::string data = directory + "/data";
  std::error_code failed;
  std::filesystem::create_directories(data, failed);
  return {.name = "redis",
          .command = RedisCommand(binary, data, port),
          .log_file = directory + "/log",
          .ready = [port] { return RespAnswers(port); }};
}

Result<LocalServer> StartIn(const std::string& directory, const PeersBenchOptions& options,
                            const PeerPrograms& programs, const std::string& system, int port,
                            int second_port) {
  const std::string data = directory + "/data";
  LocalServer::Options start;
  start.name = system;
  start.log_file = directory + "/log";
  if (system == "postgresql") {
    return programs.postgres->Start(port, MostConnections(options), start.log_file);
  }
  if (system == "redis") {
    return LocalServer::Start(RedisServer(programs.redis, directory, port));
  }
  if (system == "etcd") {
    start.command = EtcdCommand(programs.etcd, data, port, second_port);
    start.ready = [port] { return EtcdAnswers(port); };
  } else {
    start.command = HoldfastCommand(options, data, port, second_port);
    start.ready = [port, second_port] { return HoldfastAnswers(port) && RespAnswers(second_port); };
  }
  return LocalServer::Start(std::move(start));
}

Status StartOne(const PeersBenchOptions& options, const PeerPrograms& programs,
                const std::string& system, Running& running) {
  const Result<std::vector<int>> ports = FreePorts(2);
  if (!ports.ok()) {
    return ports.error();
  }
  running.port = (*ports)[0];
  running.second_port = (*ports)[1];
  Result<LocalServer> server = StartIn(running.directory->path(), options, programs, system,
                                       running.port, running.second_port);
  if (!server.ok()) {
    return server.error();
  }
  running.servers.push_back(std::move(*server));
  running.password = system == "postgresql" ? programs.postgres->password() : "";
  return {};
}

Status StartRedlock(const std::string& binary, Running& running) {
  const Result<std::vector<int>> ports = FreePorts(kRedlockServers);
  if (!ports.ok()) {
    return ports.error();
  }
  for (const int port : *ports) {
    Result<LocalServer> server = LocalServer::Start(
        RedisServer(binary, fmt::format("{}/{}", running.directory->path(), port), port));
    if (!server.ok()) {
      return server.error();
    }
    running.servers.push_back(std::move(*server));
  }
  running.ports = *ports;
  return {};
}

Status StartZooKeeper(const std::string& jar, Running& running) {
  Result<ZooKeeperCluster> cluster =
      ZooKeeperCluster::Start(jar, running.directory->path(), kZooKeeperServers);
  if (!cluster.ok()) {
    return cluster.error();
  }
  running.port = cluster->leader_port;
  running.servers = std::move(cluster->servers);
  return {};
}

}  // namespace

int MostConnections(const PeersBenchOptions& options) {
  int most = 1;
  for (const int connections : options.concurrency) {
    most = std::max(most, connections);
  }
  return most;
}

std::string Listen(int port) {
  return fmt::format("127.0.0.1:{}", port);
}

std::vector<pid_t> Running::more_pids() const {
  std::vector<pid_t> pids;
  for (std::size_t i = 1; i < servers.size(); ++i) {
    pids.push_back(servers[i].pid());
  }
  return pids;
}

Result<std::unique_ptr<Running>> StartServer(const PeersBenchOptions& options,
                                             const PeerPrograms& programs,
                                             const std::string& system) {
  auto running = std::make_unique<Running>();
  if (system == "etcd" && options.running_etcd != 0) {
    running->port = options.running_etcd;
    return running;
  }
  if (system == "holdfast" && options.running_holdfast != 0) {
    running->port = options.running_holdfast;
    running->second_port = options.running_resp;
    return running;
  }
  Result<ScratchDirectory> directory = ScratchDirectory::Create(options.work_dir);
  if (!directory.ok()) {
    return directory.error();
  }
  running->directory.emplace(std::move(*directory));
  const Status started = system == "redlock"     ? StartRedlock(programs.redlock, *running)
                         : system == "zookeeper" ? StartZooKeeper(programs.zookeeper, *running)
                                                 : StartOne(options, programs, system, *running);
  return started.ok() ? Result<std::unique_ptr<Running>>(std::move(running)) : started.error();
}

}  // namespace holdfast::bench
