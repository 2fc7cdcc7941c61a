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

#include "bench/local_server.h"
#include "bench/locks_bench.h"
#include "bench/peer_load.h"
#include "bench/peer_servers.h"
#include "bench/postgres_server.h"

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
  if (options.zookeeper_warm_up < Duration(0) || options.zookeeper_warm_up > Seconds(600)) {
    return InvalidArgument("zookeeper_warm_up", "0s..600s", "bad time to warm up");
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

// Java passes over a jar that is not there and then finds no program, which says less.
bool HasZooKeeper(const std::string& jar) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(jar, ignored) && ProgramExists("java");
}

// Java compiles while it runs, so a fresh server is first of all slow.
Status WarmZooKeeper(const PeersBenchOptions& options, const Running& running) {
  if (options.zookeeper_warm_up == Duration(0)) {
    return {};
  }
  PeerLoadOptions load;
  load.port = running.port;
  load.connections = MostConnections(options);
  load.warm_up = Duration(0);
  load.duration = options.zookeeper_warm_up;
  const Result<LoadResult> warmed = RunZooKeeperLoad(load);
  if (!warmed.ok()) {
    return warmed.error().WithContext("zookeeper, warming up");
  }
  if (options.progress != nullptr) {
    fmt::print(options.progress, "zookeeper was warmed with {} pairs\n", warmed->pairs);
    std::fflush(options.progress);
  }
  return {};
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
    load.server_pid = running.pid();
    Result<BenchReport> report = RunLocksBench(load);
    return report.ok() ? Result<LoadResult>(std::move(report->load)) : report.error();
  }
  PeerLoadOptions load;
  load.port = contender.system == "holdfast" ? running.second_port : running.port;
  load.connections = shared ? 1 : concurrency;
  load.outstanding = shared ? concurrency : 1;
  load.warm_up = options.warm_up;
  load.duration = options.duration;
  load.server_pid = running.pid();
  load.more_pids = running.more_pids();
  if (contender.system == "zookeeper") {
    return RunZooKeeperLoad(load);
  }
  if (contender.system == "redlock") {
    load.ports = running.ports;
    return RunRedlockLoad(load);
  }
  if (contender.system == "postgresql") {
    load.password = running.password;
    return RunPostgresLoad(load);
  }
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
  }

  Result<PeersReport> Run() {
    if (Status found = FindPeers(); !found.ok()) {
      return found.error();
    }
    AddSystem("redis", !programs_.redis.empty(), {"connections"}, {"shared"});
    AddSystem(
        "etcd", !programs_.etcd.empty(),
        options_.lease_per_lock ? Modes{"connections", "lease-per-lock"} : Modes{"connections"},
        {"shared"});
    AddSystem("zookeeper", !programs_.zookeeper.empty(), {"connections"}, {"shared"});
    AddSystem("redlock", !programs_.redlock.empty(), {"connections"}, {"shared"});
    AddSystem("postgresql", programs_.postgres.has_value(), {"advisory"}, {});
    AddSystem("holdfast", !options_.holdfast.empty(),
              options_.unary ? Modes{"resp", "stream", "unary"} : Modes{"resp", "stream"},
              {"shared", "resp-shared"});
    for (int repetition = 1; repetition <= options_.repetitions; ++repetition) {
      if (Status done = Repeat(repetition); !done.ok()) {
        return done.error();
      }
    }
    return report_;
  }

 private:
  using Modes = std::vector<std::string>;

  Status FindPeers() {
    const Result<std::string> redis =
        Find("redis", "redis", options_.redis, kUsualRedis, ProgramExists);
    const Result<std::string> etcd = Find("etcd", "etcd", options_.etcd, kUsualEtcd, ProgramExists);
    const Result<std::string> postgres =
        Find("postgresql", "postgres", options_.postgres, kUsualPostgres, HasPostgres);
    const Result<std::string> zookeeper =
        Find("zookeeper", "zookeeper", options_.zookeeper, "", HasZooKeeper);
    const Result<std::string> redlock =
        Find("redlock", "redlock", options_.redlock, "", ProgramExists);
    for (const Result<std::string>* found : {&redis, &etcd, &postgres, &zookeeper, &redlock}) {
      if (!found->ok()) {
        return found->error();
      }
    }
    programs_.redis = *redis;
    programs_.etcd = *etcd;
    programs_.zookeeper = *zookeeper;
    programs_.redlock = *redlock;
    if (postgres->empty()) {
      return {};
    }
    Result<PostgresCluster> cluster = PostgresCluster::Create(*postgres, options_.work_dir);
    if (cluster.ok()) {
      programs_.postgres.emplace(std::move(*cluster));
    } else if (options_.postgres.has_value()) {
      return cluster.error();
    } else {
      // Such as for root, in a directory that the user postgres cannot reach.
      LeaveOut("postgresql", cluster.error().message);
    }
    return {};
  }

  // The program of a peer; empty if it is left out, which only one that was named refuses.
  Result<std::string> Find(const std::string& system, const std::string& option,
                           const std::optional<std::string>& named, const std::string& usual,
                           bool (*exists)(const std::string&)) {
    const std::string program = named.value_or(usual);
    if (program.empty() || exists(program)) {
      return program;
    }
    if (named.has_value()) {
      return InvalidArgument(option, "what is installed, or empty to leave it out",
                             program + " is not there");
    }
    LeaveOut(system, program + " is not installed");
    return std::string();
  }

  void LeaveOut(const std::string& system, const std::string& reason) {
    report_.left_out.push_back({system, reason});
    if (options_.progress != nullptr) {
      fmt::print(options_.progress, "{} is left out: {}\n", system, reason);
    }
  }

  void AddSystem(const std::string& system, bool runs, const Modes& separate, const Modes& shared) {
    if (!runs) {
      return;
    }
    systems_.push_back(system);
    for (const std::string& mode : separate) {
      separate_.push_back({system, mode});
    }
    for (const std::string& mode : shared) {
      shared_.push_back({system, mode});
    }
  }

  Status Repeat(int repetition) {
    std::vector<std::pair<std::string, std::unique_ptr<Running>>> servers;
    for (const std::string& system : systems_) {
      Result<std::unique_ptr<Running>> server = StartServer(options_, programs_, system);
      if (!server.ok()) {
        return server.error();
      }
      servers.emplace_back(system, std::move(*server));
      if (system == "zookeeper") {
        if (Status warmed = WarmZooKeeper(options_, *servers.back().second); !warmed.ok()) {
          return warmed;
        }
      }
    }
    const auto server_of = [&servers](const std::string& system) -> const Running& {
      return *std::find_if(servers.begin(), servers.end(), [&system](const auto& entry) {
                return entry.first == system;
              })->second;
    };
    for (const int concurrency : options_.concurrency) {
      for (const Contender& contender : Ordered(separate_, repetition)) {
        if (Status row = Row(contender, concurrency, repetition, server_of(contender.system));
            !row.ok()) {
          return row;
        }
      }
    }
    for (const Contender& contender : Ordered(shared_, repetition)) {
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
  static std::vector<Contender> Ordered(std::vector<Contender> contenders, int repetition) {
    if (!contenders.empty()) {
      const auto by = static_cast<std::size_t>(repetition - 1) % contenders.size();
      std::rotate(contenders.begin(), contenders.begin() + static_cast<std::ptrdiff_t>(by),
                  contenders.end());
    }
    if (repetition % 2 == 0) {
      std::reverse(contenders.begin(), contenders.end());
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
                 "{}/{}  {:<10} {:<14} {:>4}  {:9.0f} pairs/s  p50 {:8.3f} ms  p99 {:8.3f} ms{}\n",
                 repetition, options_.repetitions, contender.system, contender.mode, concurrency,
                 load->pairs_per_s, load->pair.p50_ms, load->pair.p99_ms,
                 IsDurable(contender.system) ? "" : "  no durability");
      std::fflush(options_.progress);
    }
    report_.rows.push_back(
        {contender.system, contender.mode, concurrency, repetition, std::move(*load)});
    return {};
  }

  const PeersBenchOptions& options_;
  PeerPrograms programs_;
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
