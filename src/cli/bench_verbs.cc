#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/capacity_bench.h"
#include "bench/locks_bench.h"
#include "bench/peers_bench.h"
#include "cli/program_path.h"
#include "cli/verbs.h"

namespace holdfast::cli {
namespace {

constexpr const char* kChapter = "Service";

// What is too large for any option of the benches stays so.
int IntOr(const std::optional<std::uint64_t>& number, int fallback) {
  return number.has_value() ? static_cast<int>(std::min<std::uint64_t>(*number, INT32_MAX))
                            : fallback;
}

template <typename Report>
int Finish(const Invocation& invocation, const Result<Report>& report, const std::string& file) {
  if (!report.ok()) {
    PrintError(invocation.format, report.error());
    return ExitCodeOf(report.error());
  }
  const std::string json = ToJson(*report);
  PrintRaw(invocation.format == Format::kJson ? json : ToText(*report));
  if (file.empty()) {
    return kDone;
  }
  const Status written = WriteFile(file, json);
  if (!written.ok()) {
    PrintError(invocation.format, written.error());
    return ExitCodeOf(written.error());
  }
  return kDone;
}

struct LocksOptions {
  bench::LocksBenchOptions bench;
  std::optional<std::string> mode;
  std::optional<std::string> choice;
  std::optional<std::string> request_ids;
  std::optional<std::uint64_t> concurrency;
  std::optional<std::uint64_t> resources;
  std::optional<std::uint64_t> renewals;
  std::optional<std::uint64_t> holds;
  std::optional<std::uint64_t> seed;
  std::optional<std::uint64_t> server_pid;
  std::optional<double> rate;
  std::optional<Duration> warm_up;
  std::optional<Duration> duration;
  std::optional<Duration> ttl;
  std::optional<Duration> wait;
  std::string prefix;
  std::string json;
  bool quiet = false;
};

bench::LocksBenchOptions BenchOf(const Connection& connection, const LocksOptions& options) {
  bench::LocksBenchOptions bench;
  bench.endpoints = connection.endpoints;
  bench.name_space = connection.name_space;
  if (options.mode.has_value()) {
    bench.mode = *options.mode == "unary"    ? bench::LoadMode::kUnary
                 : *options.mode == "shared" ? bench::LoadMode::kShared
                                             : bench::LoadMode::kStream;
  }
  if (options.choice.has_value()) {
    bench.choice = *options.choice == "random"        ? bench::ResourceChoice::kRandom
                   : *options.choice == "round-robin" ? bench::ResourceChoice::kRoundRobin
                                                      : bench::ResourceChoice::kOwn;
  }
  if (options.request_ids.has_value()) {
    bench.request_ids = *options.request_ids == "none"         ? bench::RequestIds::kNone
                        : *options.request_ids == "remembered" ? bench::RequestIds::kRemembered
                                                               : bench::RequestIds::kWatermark;
  }
  bench.concurrency = IntOr(options.concurrency, bench.concurrency);
  bench.renewals = IntOr(options.renewals, bench.renewals);
  bench.holds = IntOr(options.holds, bench.holds);
  bench.server_pid = IntOr(options.server_pid, bench.server_pid);
  bench.resources = options.resources.value_or(bench.resources);
  bench.seed = options.seed.value_or(bench.seed);
  bench.rate = options.rate.value_or(bench.rate);
  bench.warm_up = options.warm_up.value_or(bench.warm_up);
  bench.duration = options.duration.value_or(bench.duration);
  bench.ttl = options.ttl.value_or(bench.ttl);
  bench.wait = options.wait.value_or(bench.wait);
  bench.prefix = options.prefix.empty() ? bench.prefix : options.prefix;
  bench.progress = options.quiet ? nullptr : stderr;
  return bench;
}

int RunLocks(const Invocation& invocation, const LocksOptions& options) {
  const Connection& connection = invocation.connection;
  if (connection.tls || !connection.ca.empty() || !connection.token_file.empty()) {
    const Error error = InvalidArgument("tls", "a server without TLS and identities",
                                        "the bench speaks neither TLS nor bearer tokens");
    PrintError(invocation.format, error);
    return ExitCodeOf(error);
  }
  return Finish(invocation, bench::RunLocksBench(BenchOf(connection, options)), options.json);
}

void AddLocksBench(CommandLine& line) {
  auto options = std::make_shared<LocksOptions>();
  line.OnService("bench locks", "",
                 "Load a running server with acquire + release pairs and report pairs per second "
                 "and latencies (p50, p95, p99, p99.9). Closed loop unless --rate is given.")
      .Choice("--mode", options->mode, {"stream", "unary", "shared"},
              "N connections with one operation outstanding each, over streams or unary calls, or "
              "one stream with N outstanding (stream)")
      .Number("--concurrency", options->concurrency, "N (64)")
      .Time("--warm-up", options->warm_up, "Not measured (2s)")
      .Time("--duration", options->duration, "Measured (10s)")
      .Decimal("--rate", options->rate, "Open loop at this many pairs per second")
      .Number("--resources", options->resources, "How many (one for each of the N)")
      .Choice("--choice", options->choice, {"own", "round-robin", "random"},
              "Which resource comes next (own: nothing is contended)")
      .Text("--prefix", options->prefix, "Resources are named PREFIX/NUMBER (bench)")
      .Time("--ttl", options->ttl, "Of each lease (30s)")
      .Time("--wait", options->wait, "Of each acquire (0s)")
      .Number("--renewals", options->renewals, "Of each lease before its release (0)")
      .Choice("--request-ids", options->request_ids, {"watermark", "remembered", "none"},
              "Acknowledged as the client library does, remembered for the namespace's memory, or "
              "none (watermark)")
      .Number("--holds", options->holds, "Further leases held and renewed over the run (0)")
      .Number("--seed", options->seed, "Of --choice random (1)")
      .Number("--server-pid", options->server_pid, "Report the CPU of this local server too")
      .Text("--json", options->json, "Write the report to this file as JSON")
      .Flag("--quiet", options->quiet, "No progress on standard error")
      .Example("holdfast bench locks --mode shared --duration 30s --json locks.json")
      .Exits({})
      .Run([options](const Invocation& invocation) { return RunLocks(invocation, *options); });
}

struct PeersOptions {
  bench::PeersBenchOptions bench;
  std::vector<std::uint64_t> concurrency;
  std::optional<std::uint64_t> shared;
  std::optional<std::uint64_t> repetitions;
  std::optional<Duration> warm_up;
  std::optional<Duration> duration;
  std::optional<Duration> zookeeper_warm_up;
  std::optional<std::uint64_t> running_etcd;
  std::optional<std::uint64_t> running_holdfast;
  std::optional<std::uint64_t> running_resp;
  std::string json;
  bool no_unary = false;
  bool no_lease_per_lock = false;
  bool quiet = false;
};

int RunPeers(const Invocation& invocation, const PeersOptions& options) {
  bench::PeersBenchOptions bench = options.bench;
  if (!options.concurrency.empty()) {
    bench.concurrency.clear();
  }
  for (const std::uint64_t connections : options.concurrency) {
    bench.concurrency.push_back(IntOr(connections, 0));
  }
  bench.running_etcd = IntOr(options.running_etcd, 0);
  bench.running_holdfast = IntOr(options.running_holdfast, 0);
  bench.running_resp = IntOr(options.running_resp, 0);
  if ((bench.running_holdfast == 0) != (bench.running_resp == 0)) {
    const Error error = InvalidArgument("running-resp", "together with --running-holdfast",
                                        "a running Holdfast needs both of its ports");
    PrintError(invocation.format, error);
    return ExitCodeOf(error);
  }
  bench.shared = IntOr(options.shared, bench.shared);
  bench.repetitions = IntOr(options.repetitions, bench.repetitions);
  bench.warm_up = options.warm_up.value_or(bench.warm_up);
  bench.duration = options.duration.value_or(bench.duration);
  bench.zookeeper_warm_up = options.zookeeper_warm_up.value_or(bench.zookeeper_warm_up);
  bench.unary = !options.no_unary;
  bench.lease_per_lock = !options.no_lease_per_lock;
  bench.holdfast = ProgramPath();
  bench.progress = options.quiet ? nullptr : stderr;
  return Finish(invocation, bench::RunPeersBench(bench), options.json);
}

void AddPeersBench(CommandLine& line) {
  auto options = std::make_shared<PeersOptions>();
  line.Local("bench peers", "",
             "Measure Holdfast, Redis 7 with appendfsync always and single-node etcd (v3lock) in "
             "one run on this machine, every reply after an fsync, and beside them PostgreSQL's "
             "advisory locks, which have no durability; on request ZooKeeper and Redlock, each on "
             "servers of its own. Each server is started afresh on loopback. "
             "A peer that is not installed is left out, unless its option names it. Only the "
             "ratios mean something elsewhere.")
      .Numbers("--concurrency", options->concurrency,
               "Connections with one operation outstanding each (1,16,64,256)")
      .Number("--shared", options->shared,
              "One connection with this many outstanding; 0: leave out (64)")
      .Flag("--no-unary", options->no_unary, "Leave out Holdfast's unary calls")
      .Flag("--no-lease-per-lock", options->no_lease_per_lock,
            "Leave out etcd with a lease granted and revoked for each lock")
      .Number("--repetitions", options->repetitions, "Of the whole set (3)")
      .Time("--warm-up", options->warm_up, "Of each measurement (1s)")
      .Time("--duration", options->duration, "Of each measurement (3s)")
      .Text("--redis", options->bench.redis, "Program; '' leaves it out (redis-server)")
      .Text("--etcd", options->bench.etcd, "Program; '' leaves it out (etcd)")
      .Text("--postgres", options->bench.postgres,
            "Directory of its programs; '' leaves it out (/usr/lib/postgresql/15/bin)")
      .Text("--zookeeper", options->bench.zookeeper,
            "ZooKeeper's jar, such as Debian's /usr/share/java/zookeeper.jar: its lock recipe on "
            "three servers ('')")
      .Time("--zookeeper-warm-up", options->zookeeper_warm_up,
            "Load on ZooKeeper's servers before their first measurement (15s)")
      .Text(
          "--redlock", options->bench.redlock,
          "Program, such as redis-server: Redlock over five of them, with appendfsync always ('')")
      .Number("--running-etcd", options->running_etcd,
              "Port of an etcd on loopback that runs already, such as a member of a cluster")
      .Number("--running-holdfast", options->running_holdfast,
              "gRPC port of a Holdfast that runs already, such as a cluster's leader")
      .Number("--running-resp", options->running_resp, "Its RESP port")
      .Text("--work-dir", options->bench.work_dir, "Where servers keep data: a disk (.)")
      .Text("--json", options->json, "Write the report to this file as JSON")
      .Flag("--quiet", options->quiet, "No progress on standard error")
      .Example("holdfast bench peers --repetitions 5 --json peers.json")
      .Exits({})
      .Run([options](const Invocation& invocation) { return RunPeers(invocation, *options); });
}

struct CapacityOptions {
  bench::CapacityOptions bench;
  std::optional<double> rate;
  std::optional<std::uint64_t> resources;
  std::optional<std::uint64_t> holds;
  std::optional<Duration> warm_up;
  std::optional<Duration> duration;
  std::string json;
  std::string plot;
  bool no_fault = false;
  bool quiet = false;
};

int RunCapacity(const Invocation& invocation, const CapacityOptions& options) {
  bench::CapacityOptions bench = options.bench;
  bench.holdfast = ProgramPath();
  bench.rate = options.rate.value_or(bench.rate);
  bench.resources = options.resources.value_or(bench.resources);
  bench.holds = IntOr(options.holds, bench.holds);
  bench.warm_up = options.warm_up.value_or(bench.warm_up);
  bench.duration = options.duration.value_or(bench.duration);
  bench.fault = !options.no_fault;
  bench.progress = options.quiet ? nullptr : stderr;
  const Result<bench::CapacityReport> report = bench::RunCapacityBench(bench);
  int code = Finish(invocation, report, options.json);
  if (code == kDone && !options.plot.empty()) {
    if (const Status written = WriteFile(options.plot, ToPlot(*report)); !written.ok()) {
      PrintError(invocation.format, written.error());
      code = ExitCodeOf(written.error());
    }
  }
  return code == kDone && !Shortcomings(*report).empty() ? static_cast<int>(kFailed) : code;
}

void AddCapacityBench(CommandLine& line) {
  auto options = std::make_shared<CapacityOptions>();
  line.Local("bench capacity", "",
             "Prove that a replicated cluster carries its load: starts three etcd members and "
             "three servers on this machine, fills the memory of request ids, and loads them in "
             "an open loop while etcd's leader is killed and started again. Not passed if p99 of "
             "an uncontended acquire exceeds 200 ms, anything is lost, or everything stands "
             "longer than 5 s.")
      .Decimal("--rate", options->rate,
               "Acquires per second, and as many renewals and releases; a fifth of the acquires is "
               "contended (2000)")
      .Time("--duration", options->duration, "Measured (5m)")
      .Number("--resources", options->resources, "How many (100000)")
      .Number("--holds", options->holds,
              "Leases held over the run, renewed at the rate; one lasts 10s to 10m (20000)")
      .Time("--warm-up", options->warm_up, "Not measured (25s)")
      .Text("--etcd", options->bench.etcd, "Program (etcd)")
      .Text("--work-dir", options->bench.work_dir, "Where servers keep data: a disk (.)")
      .Flag("--until-it-breaks", options->bench.until_it_breaks,
            "Then raise the rate by half each 20s until it is not carried, and say what bounds it")
      .Flag("--no-fault", options->no_fault, "Leave etcd alone")
      .Text("--json", options->json, "Write the report to this file as JSON")
      .Text("--plot", options->plot, "Write latency over time to this file as SVG")
      .Flag("--quiet", options->quiet, "No progress on standard error")
      .Example("holdfast bench capacity --json capacity.json --plot capacity.svg")
      .Exits({kFailed})
      .Run([options](const Invocation& invocation) { return RunCapacity(invocation, *options); });
}

}  // namespace

void AddBenchVerbs(CommandLine& line) {
  line.DescribeGroup("bench", kChapter, "Measure.");
  AddLocksBench(line);
  AddPeersBench(line);
  AddCapacityBench(line);
}

}  // namespace holdfast::cli
