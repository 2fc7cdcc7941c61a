#include "bench/peers_bench.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>

#include <fmt/core.h>
#include <linux/magic.h>
#include <sys/vfs.h>

#include "bench/channel.h"
#include "bench/local_server.h"
#include "bench/locks_bench.h"
#include "bench/peer_load.h"

namespace holdfast::bench {
namespace {

struct Contender {
  std::string system;
  std::string mode;
};

Status Validate(const PeersBenchOptions& options) {
  if (options.repetitions < 1 || options.repetitions > 1000) {
    return InvalidArgument("repetitions", "1..1000", "bad number of repetitions");
  }
  if (options.duration < Millis(100) || options.warm_up < Duration(0)) {
    return InvalidArgument("duration", "at least 100 ms, and no negative warm-up", "bad duration");
  }
  const auto bad = [](int connections) { return connections < 1 || connections > 4096; };
  if (std::any_of(options.concurrency.begin(), options.concurrency.end(), bad)) {
    return InvalidArgument("concurrency", "1..4096", "bad number of connections");
  }
  if (options.shared < 0 || options.shared > 4096) {
    return InvalidArgument("shared", "0..4096", "bad number of operations");
  }
  struct statfs file_system {};
  if (statfs(options.work_dir.c_str(), &file_system) != 0) {
    return InvalidArgument("work_dir", "an existing directory", "no such directory");
  }
  if (file_system.f_type == TMPFS_MAGIC) {
    return InvalidArgument("work_dir", "a directory on a disk",
                           options.work_dir + " is in memory, where fsync costs nothing");
  }
  return {};
}

std::string Listen(int port) {
  return fmt::format("127.0.0.1:{}", port);
}

bool HoldfastAnswers(int port) {
  const auto channel = MakeChannel(Listen(port), 0);
  return WaitConnected(*channel, Listen(port), LoadClock::now() + Millis(200)).ok();
}

// One freshly started server with its data.
struct Running {
  ScratchDirectory directory;
  int port = 0;
  int second_port = 0;  // of etcd's peers, or of Holdfast's RESP listener
  LocalServer server;   // last, so that it ends before its directory goes
};

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

Result<std::unique_ptr<Running>> StartServer(const PeersBenchOptions& options,
                                             const std::string& system) {
  Result<ScratchDirectory> directory = ScratchDirectory::Create(options.work_dir);
  const Result<int> port = FreePort();
  const Result<int> second_port = FreePort();
  if (!directory.ok() || !port.ok() || !second_port.ok()) {
    return !directory.ok() ? directory.error() : !port.ok() ? port.error() : second_port.error();
  }
  const std::string data = directory->path() + "/data";
  LocalServer::Options start;
  start.name = system;
  start.log_file = directory->path() + "/log";
  if (system == "redis") {
    std::error_code failed;
    std::filesystem::create_directory(data, failed);
    start.command = RedisCommand(options.redis, data, *port);
    start.ready = [port = *port] { return RespAnswers(port); };
  } else if (system == "etcd") {
    start.command = EtcdCommand(options.etcd, data, *port, *second_port);
    start.ready = [port = *port] { return EtcdAnswers(port); };
  } else {
    start.command = HoldfastCommand(options, data, *port, *second_port);
    start.ready = [port = *port, resp = *second_port] {
      return HoldfastAnswers(port) && RespAnswers(resp);
    };
  }
  Result<LocalServer> server = LocalServer::Start(std::move(start));
  if (!server.ok()) {
    return server.error();
  }
  return std::make_unique<Running>(
      Running{std::move(*directory), *port, *second_port, std::move(*server)});
}

Result<LoadResult> Measure(const PeersBenchOptions& options, const Contender& contender,
                           int concurrency, const Running& running) {
  const bool shared = IsShared(contender.mode);
  const bool resp = contender.system == "redis" || contender.mode.substr(0, 4) == "resp";
  if (contender.system == "holdfast" && !resp) {
    LocksBenchOptions load;
    load.endpoints = {Listen(running.port)};
    load.mode = shared                      ? LoadMode::kShared
                : contender.mode == "unary" ? LoadMode::kUnary
                                            : LoadMode::kStream;
    load.concurrency = concurrency;
    load.warm_up = options.warm_up;
    load.duration = options.duration;
    load.server_pid = running.server.pid();
    Result<BenchReport> report = RunLocksBench(load);
    return report.ok() ? Result<LoadResult>(std::move(report->load)) : report.error();
  }
  PeerLoadOptions load;
  load.port = contender.system == "holdfast" ? running.second_port : running.port;
  load.connections = shared ? 1 : concurrency;
  load.outstanding = shared ? concurrency : 1;
  load.warm_up = options.warm_up;
  load.duration = options.duration;
  load.server_pid = running.server.pid();
  if (!resp) {
    return RunEtcdLoad(
        load, contender.mode == "lease-per-lock" ? EtcdLease::kPerLock : EtcdLease::kReused);
  }
  return RunRespLoad(load,
                     contender.system == "redis" ? RespSystem::kRedis : RespSystem::kHoldfast);
}

class PeersRun {
 public:
  explicit PeersRun(const PeersBenchOptions& options) : options_(options) {
    report_.options = options;
    AddSystem("redis", options.redis, {"connections"});
    AddSystem("etcd", options.etcd,
              options.lease_per_lock ? std::vector<std::string>{"connections", "lease-per-lock"}
                                     : std::vector<std::string>{"connections"});
    AddSystem("holdfast", options.holdfast,
              options.unary ? std::vector<std::string>{"resp", "stream", "unary"}
                            : std::vector<std::string>{"resp", "stream"});
    if (!options.holdfast.empty()) {
      shared_.push_back({"holdfast", "resp-shared"});
    }
  }

  Result<PeersReport> Run() {
    for (int repetition = 1; repetition <= options_.repetitions; ++repetition) {
      if (Status done = Repeat(repetition); !done.ok()) {
        return done.error();
      }
    }
    return report_;
  }

 private:
  void AddSystem(const std::string& system, const std::string& binary,
                 const std::vector<std::string>& modes) {
    if (binary.empty()) {
      return;
    }
    systems_.push_back(system);
    for (const std::string& mode : modes) {
      separate_.push_back({system, mode});
    }
    shared_.push_back({system, "shared"});
  }

  Status Repeat(int repetition) {
    std::vector<std::pair<std::string, std::unique_ptr<Running>>> servers;
    for (const std::string& system : systems_) {
      Result<std::unique_ptr<Running>> server = StartServer(options_, system);
      if (!server.ok()) {
        return server.error();
      }
      servers.emplace_back(system, std::move(*server));
    }
    const auto server_of = [&servers](const std::string& system) -> const Running& {
      return *std::find_if(servers.begin(), servers.end(), [&system](const auto& entry) {
                return entry.first == system;
              })->second;
    };
    for (const int concurrency : options_.concurrency) {
      for (const Contender& contender : Rotated(separate_, repetition)) {
        if (Status row = Row(contender, concurrency, repetition, server_of(contender.system));
            !row.ok()) {
          return row;
        }
      }
    }
    for (const Contender& contender : Rotated(shared_, repetition)) {
      if (options_.shared == 0) {
        break;
      }
      if (Status row = Row(contender, options_.shared, repetition, server_of(contender.system));
          !row.ok()) {
        return row;
      }
    }
    return {};
  }

  // Nobody always comes right after the same other one.
  static std::vector<Contender> Rotated(std::vector<Contender> contenders, int repetition) {
    if (!contenders.empty()) {
      const auto by = static_cast<std::size_t>(repetition - 1) % contenders.size();
      std::rotate(contenders.begin(), contenders.begin() + static_cast<std::ptrdiff_t>(by),
                  contenders.end());
    }
    return contenders;
  }

  Status Row(const Contender& contender, int concurrency, int repetition, const Running& running) {
    Result<LoadResult> load = Measure(options_, contender, concurrency, running);
    if (!load.ok()) {
      return load.error().WithContext(
          fmt::format("{} {} x {}", contender.system, contender.mode, concurrency));
    }
    if (options_.progress != nullptr) {
      fmt::print(options_.progress,
                 "{}/{}  {:<8} {:<11} {:>4}  {:9.0f} pairs/s  p50 {:8.3f} ms  p99 {:8.3f} ms\n",
                 repetition, options_.repetitions, contender.system, contender.mode, concurrency,
                 load->pairs_per_s, load->pair.p50_ms, load->pair.p99_ms);
      std::fflush(options_.progress);
    }
    report_.rows.push_back(
        {contender.system, contender.mode, concurrency, repetition, std::move(*load)});
    return {};
  }

  const PeersBenchOptions& options_;
  std::vector<std::string> systems_;
  std::vector<Contender> separate_;
  std::vector<Contender> shared_;
  PeersReport report_;
};

}  // namespace

Result<PeersReport> RunPeersBench(const PeersBenchOptions& options) {
  if (Status valid = Validate(options); !valid.ok()) {
    return valid.error();
  }
  return PeersRun(options).Run();
}

}  // namespace holdfast::bench
