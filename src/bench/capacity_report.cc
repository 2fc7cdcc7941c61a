// RunCapacityBench's report as JSON and as text.
#include <algorithm>
#include <string>
#include <string_view>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "bench/capacity_bench.h"

namespace holdfast::bench {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kMega = 1e6;

std::uint64_t Operations(const CapacityLoads& loads) {
  return loads.uncontended.load.operations + loads.contended.load.operations;
}

// Of each operation that the clients had an answer to.
double PerOperation(const CapacityLoads& loads, double count) {
  return count / static_cast<double>(std::max<std::uint64_t>(1, Operations(loads)));
}

std::uint64_t Unknown(const CapacityLoads& loads) {
  std::uint64_t unknown = 0;
  for (const BenchReport* report : {&loads.uncontended, &loads.contended}) {
    const auto found = report->load.errors.find(ErrorCodeName(ErrorCode::kUnknownOutcome));
    unknown += found == report->load.errors.end() ? 0 : found->second;
  }
  return unknown;
}

double Renewals(const CapacityReport& report) {
  const LoadResult& load = report.loads.uncontended.load;
  return load.seconds > 0 ? static_cast<double>(load.renew.count) / load.seconds : 0;
}

Json OfFigures(const CapacityLoads& loads, const ClusterFigures& figures) {
  Json processes = Json::array();
  for (const ProcessFigures& process : figures.processes) {
    processes.push_back({{"name", process.name},
                         {"cpu_percent", process.cpu_percent},
                         {"resident_mb", process.resident_bytes_most / kMega},
                         {"written_mb", process.written_bytes / kMega}});
  }
  return Json{
      {"commits_per_s", figures.CommitsPerSecond()},
      {"commit_ms", figures.CommitMs()},
      {"log_bytes_per_operation", PerOperation(loads, figures.log_bytes)},
      {"etcd_fsyncs_per_operation", PerOperation(loads, figures.etcd_fsyncs)},
      {"etcd_fsync_ms", figures.EtcdFsyncMs()},
      {"etcd_backend_commits_per_operation", PerOperation(loads, figures.etcd_backend_commits)},
      {"etcd_client_bytes_per_operation", PerOperation(loads, figures.etcd_client_bytes)},
      {"etcd_peer_bytes_per_operation", PerOperation(loads, figures.etcd_peer_bytes)},
      {"snapshots", figures.snapshots},
      {"trimmed_entries", figures.trimmed_entries},
      {"takeovers", figures.takeovers},
      {"unknown_appends", figures.unknown_appends},
      {"waits", figures.waits},
      {"cancelled_waits", figures.cancelled_waits},
      {"timed_out_waits", figures.timed_out_waits},
      {"expired_leases", figures.expired_leases},
      {"machine_cpu_percent", figures.machine_cpu_percent},
      {"cores", figures.cores},
      {"processes", std::move(processes)}};
}

Json OfWindows(const CapacityReport& report) {
  Json windows = Json::array();
  for (const LoadWindow& window : report.loads.uncontended.load.windows) {
    windows.push_back({{"from_s", window.from},
                       {"count", window.acquire.count},
                       {"p99_ms", window.acquire.p99_ms}});
  }
  return windows;
}

Json OfSteps(const CapacityReport& report) {
  Json steps = Json::array();
  for (const CapacityStep& step : report.steps) {
    const BenchReport& uncontended = step.loads.uncontended;
    const std::string broke = BreakOf(step);
    steps.push_back({{"offered_per_s", step.rate},
                     {"uncontended_offered_per_s", uncontended.options.rate},
                     {"uncontended_achieved_per_s", uncontended.load.pairs_per_s},
                     {"acquire_p50_ms", uncontended.load.acquire.p50_ms},
                     {"acquire_p99_ms", uncontended.load.acquire.p99_ms},
                     {"backlog", uncontended.backlog},
                     {"carried", broke.empty()},
                     {"broke", broke},
                     {"bound", BoundOf(step)},
                     {"cluster", OfFigures(step.loads, step.figures)}});
  }
  return steps;
}

std::string LatencyLine(std::string_view name, const LatencySummary& latency) {
  return fmt::format("  {:<20}{:>9}{:>9.1f}{:>9.1f}{:>9.1f}{:>9.1f}{:>9.1f}\n", name, latency.count,
                     latency.p50_ms, latency.p95_ms, latency.p99_ms, latency.p999_ms,
                     latency.max_ms);
}

std::string Counts(const std::map<std::string, std::uint64_t, std::less<>>& counts) {
  std::string text;
  for (const auto& [kind, count] : counts) {
    text += fmt::format(" {}={}", kind, count);
  }
  return text.empty() ? " none" : text;
}

std::string TextOfLoads(const CapacityReport& report) {
  const LoadResult& uncontended = report.loads.uncontended.load;
  const LoadResult& contended = report.loads.contended.load;
  std::string text = fmt::format(
      "uncontended: {:.0f} pairs/s offered, {:.1f} achieved; renewals of {} holds: {:.1f}/s\n"
      "contended: {:.0f} acquires/s offered, {:.1f} granted, {:.1f} released\n",
      report.loads.uncontended.options.rate, uncontended.pairs_per_s, report.options.holds,
      Renewals(report), report.loads.contended.options.rate,
      contended.seconds > 0 ? static_cast<double>(contended.acquire.count) / contended.seconds : 0,
      contended.seconds > 0 ? static_cast<double>(contended.release.count) / contended.seconds : 0);
  text += fmt::format("  {:<20}{:>9}{:>9}{:>9}{:>9}{:>9}{:>9}\n", "ms", "count", "p50", "p95",
                      "p99", "p99.9", "max");
  text += LatencyLine("acquire", uncontended.acquire);
  text += LatencyLine("renew", uncontended.renew);
  text += LatencyLine("release", uncontended.release);
  text += LatencyLine("acquire, contended", contended.acquire);
  text += "p99 of an uncontended acquire in each 10 s, ms:";
  for (const LoadWindow& window : uncontended.windows) {
    text += fmt::format(" {:.0f}", window.acquire.p99_ms);
  }
  text += fmt::format("\nerrors:{}; contended:{}\nrefusals:{}; contended:{}\n",
                      Counts(uncontended.errors), Counts(contended.errors),
                      Counts(uncontended.refusals), Counts(contended.refusals));
  text += fmt::format("not begun at the end: {}, contended {}; never answered: {}\n",
                      report.loads.uncontended.backlog, report.loads.contended.backlog,
                      report.loads.uncontended.unanswered + report.loads.contended.unanswered);
  return text;
}

std::string TextOfFigures(const CapacityReport& report) {
  const ClusterFigures& figures = report.figures;
  const CapacityLoads& loads = report.loads;
  std::string text = fmt::format(
      "unknown outcomes that were resolved: {} of clients, {} appends of the leader\n"
      "waits {:.0f}, cancelled {:.0f}, timed out {:.0f}; expired leases {:.0f}; request ids at the "
      "begin {:.0f}\n"
      "{:.0f} commits/s of {:.1f} ms; snapshots {:.0f}, trimmed entries {:.0f}, takeovers {:.0f}\n",
      Unknown(loads), figures.unknown_appends, figures.waits, figures.cancelled_waits,
      figures.timed_out_waits, figures.expired_leases, report.request_ids,
      figures.CommitsPerSecond(), figures.CommitMs(), figures.snapshots, figures.trimmed_entries,
      figures.takeovers);
  text += fmt::format(
      "for each operation: {:.0f} bytes of log; of all etcd members {:.3f} fsyncs ({:.1f} ms "
      "each), "
      "{:.3f} backend commits, {:.0f} bytes from clients, {:.0f} bytes to each other\n",
      PerOperation(loads, figures.log_bytes), PerOperation(loads, figures.etcd_fsyncs),
      figures.EtcdFsyncMs(), PerOperation(loads, figures.etcd_backend_commits),
      PerOperation(loads, figures.etcd_client_bytes), PerOperation(loads, figures.etcd_peer_bytes));
  text += fmt::format("  {:<20}{:>9}{:>9}{:>12}\n", "process", "CPU %", "RSS MB", "written MB");
  for (const ProcessFigures& process : figures.processes) {
    text += fmt::format("  {:<20}{:>9.0f}{:>9.0f}{:>12.0f}\n", process.name, process.cpu_percent,
                        process.resident_bytes_most / kMega, process.written_bytes / kMega);
  }
  text += fmt::format("  {:<20}{:>9.0f}  of {} %\n", "machine", figures.machine_cpu_percent,
                      100 * figures.cores);
  return text;
}

std::string TextOfSteps(const CapacityReport& report) {
  std::string text;
  for (const CapacityStep& step : report.steps) {
    const BenchReport& uncontended = step.loads.uncontended;
    const std::string broke = BreakOf(step);
    text += fmt::format(
        "at {:.0f}/s: {:.0f} of {:.0f} uncontended pairs/s, p50 {:.1f} ms, p99 "
        "{:.1f} ms: {}\n",
        step.rate, uncontended.load.pairs_per_s, uncontended.options.rate,
        uncontended.load.acquire.p50_ms, uncontended.load.acquire.p99_ms,
        broke.empty() ? "carried" : "breaks, " + broke);
    text += fmt::format("  bound by {}\n", BoundOf(step));
  }
  if (!report.steps.empty() && BreakOf(report.steps.back()).empty()) {
    text += "the highest rate that is tried did not break it\n";
  }
  return text;
}

}  // namespace

std::string ToJson(const CapacityReport& report) {
  const auto& [uncontended, contended] = report.loads;
  const std::vector<std::string> missing = Shortcomings(report);
  Json faults = Json::array();
  for (const CapacityFault& fault : report.faults) {
    faults.push_back({{"at_s", fault.at_s}, {"what", fault.what}});
  }
  const Json json{{"bench", "capacity"},
                  {"passed", missing.empty()},
                  {"shortcomings", missing},
                  {"seconds", uncontended.load.seconds},
                  {"offered_per_s", report.options.rate},
                  {"renewals_per_s", Renewals(report)},
                  {"request_ids", report.request_ids},
                  {"unknown_resolved", Unknown(report.loads)},
                  {"longest_gap_near_faults_ms", LongestGapMs(report, true)},
                  {"longest_gap_elsewhere_ms", LongestGapMs(report, false)},
                  {"faults", std::move(faults)},
                  {"windows", OfWindows(report)},
                  {"cluster", OfFigures(report.loads, report.figures)},
                  {"steps", OfSteps(report)},
                  {"uncontended", Json::parse(ToJson(uncontended))},
                  {"contended", Json::parse(ToJson(contended))}};
  return json.dump(2) + "\n";
}

std::string ToText(const CapacityReport& report) {
  std::string text = TextOfLoads(report) + TextOfFigures(report);
  for (const CapacityFault& fault : report.faults) {
    text += fmt::format("at {:.1f} s: {}\n", fault.at_s, fault.what);
  }
  text += "longest time without a completion: ";
  if (!report.faults.empty()) {
    text +=
        fmt::format("{:.0f} ms within 10 s after a fault, elsewhere ", LongestGapMs(report, true));
  }
  text += fmt::format("{:.0f} ms\n", LongestGapMs(report, false));
  text += TextOfSteps(report);
  const std::vector<std::string> missing = Shortcomings(report);
  text += missing.empty() ? "PASSED\n" : "NOT PASSED\n";
  for (const std::string& reason : missing) {
    text += "  " + reason + "\n";
  }
  return text;
}

}  // namespace holdfast::bench
