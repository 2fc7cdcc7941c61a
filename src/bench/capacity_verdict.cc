// What RunCapacityBench's figures say: passed or not, carried or not, and what was used up.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <fmt/core.h>

#include "bench/capacity_bench.h"

namespace holdfast::bench {
namespace {

constexpr double kNearSeconds = 10;
// What counts as the whole machine: the kernel's own work has no process.
constexpr double kMachineFull = 0.9;
// Ids of the preload that may be missing: some of them end while the holds are taken.
constexpr double kRememberedEnough = 0.95;

// Arrivals of a tenth of a second may be on their way at the end.
bool Behind(const BenchReport& report) {
  return static_cast<double>(report.backlog) > std::max(1.0, report.options.rate / 10);
}

std::string Kinds(const std::map<std::string, std::uint64_t, std::less<>>& counts) {
  std::string text;
  for (const auto& [kind, count] : counts) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, kind);
  }
  return text;
}

double SecondsOf(Duration duration) {
  return static_cast<double>(duration.count()) / 1e9;
}

void WantTheFaults(const CapacityReport& report, std::vector<std::string>& missing) {
  if (!report.options.fault) {
    return;
  }
  if (report.faults.size() < 2) {
    missing.emplace_back("etcd's leader was not killed and started again");
  }
  if (const double gap = LongestGapMs(report, true); gap > kElectionGapLimitMs) {
    missing.push_back(
        fmt::format("everything stood for {:.0f} ms around a fault, the bound is {:.0f}", gap,
                    kElectionGapLimitMs));
  }
}

void WantTheLoad(const CapacityReport& report, std::vector<std::string>& missing) {
  const double wanted = report.options.rate * SecondsOf(report.options.remembered);
  if (report.request_ids < kRememberedEnough * wanted) {
    missing.push_back(fmt::format("{:.0f} request ids were remembered at the begin, wanted {:.0f}",
                                  report.request_ids, wanted));
  }
  const ClusterFigures& figures = report.figures;
  for (const auto& [name, count] :
       {std::pair("wait", figures.waits), std::pair("cancelled wait", figures.cancelled_waits),
        std::pair("expiry", figures.expired_leases)}) {
    if (count == 0) {
      missing.push_back(fmt::format("the contended load made no {}", name));
    }
  }
}

}  // namespace

double LongestGapMs(const CapacityReport& report, bool near) {
  double longest = 0;
  for (const LoadSecond& second : report.loads.uncontended.load.timeline) {
    const bool after_fault = std::any_of(
        report.faults.begin(), report.faults.end(), [&second](const CapacityFault& fault) {
          return second.at >= std::floor(fault.at_s) && second.at <= fault.at_s + kNearSeconds;
        });
    if (after_fault == near) {
      longest = std::max(longest, second.gap_ms);
    }
  }
  return longest;
}

std::vector<std::string> Shortcomings(const CapacityReport& report) {
  const BenchReport& uncontended = report.loads.uncontended;
  const BenchReport& contended = report.loads.contended;
  std::vector<std::string> missing;
  if (uncontended.load.acquire.count == 0) {
    missing.emplace_back("nothing was acquired");
  }
  if (const double p99 = uncontended.load.acquire.p99_ms; p99 > kAcquireP99LimitMs) {
    missing.push_back(fmt::format("p99 of an uncontended acquire is {:.1f} ms, the limit is {:.0f}",
                                  p99, kAcquireP99LimitMs));
  }
  // Nobody else takes its resources, and no lease of it may end: every refusal is a loss.
  if (!uncontended.load.refusals.empty()) {
    missing.push_back("lost: " + Kinds(uncontended.load.refusals));
  }
  if (uncontended.unanswered + contended.unanswered > 0) {
    missing.push_back(fmt::format("{} operations were never answered",
                                  uncontended.unanswered + contended.unanswered));
  }
  if (Behind(uncontended)) {
    missing.push_back(
        fmt::format("{} pairs were due but not begun at the end", uncontended.backlog));
  }
  WantTheFaults(report, missing);
  WantTheLoad(report, missing);
  return missing;
}

std::string BreakOf(const CapacityStep& step) {
  const BenchReport& uncontended = step.loads.uncontended;
  if (!step.failure.empty()) {
    return step.failure;
  }
  if (Behind(uncontended)) {
    return fmt::format("{} pairs were due but not begun", uncontended.backlog);
  }
  if (const double p99 = uncontended.load.acquire.p99_ms; p99 > kAcquireP99LimitMs) {
    return fmt::format("p99 of an uncontended acquire is {:.0f} ms", p99);
  }
  return {};
}

std::string BoundOf(const CapacityStep& step) {
  const ClusterFigures& figures = step.figures;
  double etcd = 0;
  double nodes = 0;
  double client = 0;
  for (const ProcessFigures& process : figures.processes) {
    double& group = process.name.starts_with("etcd")   ? etcd
                    : process.name.starts_with("node") ? nodes
                                                       : client;
    group += process.cpu_percent;
  }
  const std::string cpu =
      fmt::format("CPU {:.0f} of {} % (etcd {:.0f}, nodes {:.0f}, client {:.0f})",
                  figures.machine_cpu_percent, 100 * figures.cores, etcd, nodes, client);
  const std::string log =
      fmt::format("{:.0f} commits a second of {:.1f} ms, an fsync of etcd takes {:.1f} ms",
                  figures.CommitsPerSecond(), figures.CommitMs(), figures.EtcdFsyncMs());
  const bool full = figures.machine_cpu_percent >= kMachineFull * 100 * figures.cores;
  return full ? fmt::format("the machine's CPU: {}; {}", cpu, log)
              : fmt::format("the commits: {}; {}", log, cpu);
}

}  // namespace holdfast::bench
