#include "bench/peer_servers.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "bench/channel.h"
#include "bench/peer_load.h"

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

// Connections that are open at once.
int MostConnections(const PeersBenchOptions& options) {
  int most = 1;
  for (const int connections : options.concurrency) {
    most = std::max(most, connections);
  }
  return most;
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
    std::error_code failed;
    std::filesystem::create_directory(data, failed);
    start.command = RedisCommand(programs.redis, data, port);
    start.ready = [port] { return RespAnswers(port); };
  } else if (system == "etcd") {
    start.command = EtcdCommand(programs.etcd, data, port, second_port);
    start.ready = [port] { return EtcdAnswers(port); };
  } else {
    start.command = HoldfastCommand(options, data, port, second_port);
    start.ready = [port, second_port] { return HoldfastAnswers(port) && RespAnswers(second_port); };
  }
  return LocalServer::Start(std::move(start));
}

}  // namespace

std::string Listen(int port) {
  return fmt::format("127.0.0.1:{}", port);
}

Result<std::unique_ptr<Running>> StartServer(const PeersBenchOptions& options,
                                             const PeerPrograms& programs,
                                             const std::string& system) {
  if (system == "etcd" && options.running_etcd != 0) {
    return std::make_unique<Running>(Running{{}, options.running_etcd, 0, "", {}});
  }
  if (system == "holdfast" && options.running_holdfast != 0) {
    return std::make_unique<Running>(
        Running{{}, options.running_holdfast, options.running_resp, "", {}});
  }
  Result<ScratchDirectory> directory = ScratchDirectory::Create(options.work_dir);
  const Result<int> port = FreePort();
  const Result<int> second_port = FreePort();
  if (!directory.ok() || !port.ok() || !second_port.ok()) {
    return !directory.ok() ? directory.error() : !port.ok() ? port.error() : second_port.error();
  }
  Result<LocalServer> server =
      StartIn(directory->path(), options, programs, system, *port, *second_port);
  if (!server.ok()) {
    return server.error();
  }
  const bool postgres = system == "postgresql";
  return std::make_unique<Running>(Running{std::move(*directory), *port, *second_port,
                                           postgres ? programs.postgres->password() : "",
                                           std::move(*server)});
}

}  // namespace holdfast::bench
