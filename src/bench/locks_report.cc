// RunLocksBench's report as JSON and as text.
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "bench/locks_bench.h"

namespace holdfast::bench {
namespace {

using Json = nlohmann::ordered_json;

const char* ChoiceName(ResourceChoice choice) {
  switch (choice) {
    case ResourceChoice::kOwn:
      return "own";
    case ResourceChoice::kRoundRobin:
      return "round-robin";
    case ResourceChoice::kRandom:
      return "random";
  }
  return "unknown";
}

const char* RequestIdsName(RequestIds mode) {
  switch (mode) {
    case RequestIds::kWatermark:
      return "watermark";
    case RequestIds::kRemembered:
      return "remembered";
    case RequestIds::kNone:
      return "none";
  }
  return "unknown";
}

Json OfLatency(const LatencySummary& latency) {
  return Json{{"count", latency.count},   {"p50_ms", latency.p50_ms},   {"p95_ms", latency.p95_ms},
              {"p99_ms", latency.p99_ms}, {"p999_ms", latency.p999_ms}, {"max_ms", latency.max_ms}};
}

Json OfTimeline(const std::vector<LoadSecond>& timeline) {
  Json rows = Json::array();
  for (const LoadSecond& second : timeline) {
    Json row{{"at_s", second.at}, {"errors", second.errors}, {"gap_ms", second.gap_ms}};
    for (const auto& [name, latency] :
         {std::pair("acquire", &second.acquire), std::pair("renew", &second.renew),
          std::pair("release", &second.release)}) {
      row[name] = Json{{"count", latency->count},
                       {"p50_ms", latency->p50_ms},
                       {"p99_ms", latency->p99_ms},
                       {"max_ms", latency->max_ms}};
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

Json OfOptions(const LocksBenchOptions& options) {
  return Json{{"endpoints", options.endpoints},
              {"mode", LoadModeName(options.mode)},
              {"concurrency", options.concurrency},
              {"warm_up_ms", ToMillis(options.warm_up)},
              {"duration_ms", ToMillis(options.duration)},
              {"rate", options.rate},
              {"resources", options.resources},
              {"choice", ChoiceName(options.choice)},
              {"prefix", options.prefix},
              {"namespace", options.name_space},
              {"ttl_ms", ToMillis(options.ttl)},
              {"wait_ms", ToMillis(options.wait)},
              {"renewals", options.renewals},
              {"request_ids", RequestIdsName(options.request_ids)},
              {"holds", options.holds}};
}

std::string LatencyLine(std::string_view name, const LatencySummary& latency) {
  if (latency.count == 0) {
    return {};
  }
  return fmt::format("  {:<14}{:>10}{:>10.3f}{:>10.3f}{:>10.3f}{:>10.3f}{:>10.3f}\n", name,
                     latency.count, latency.p50_ms, latency.p95_ms, latency.p99_ms, latency.p999_ms,
                     latency.max_ms);
}

std::string CountsLine(std::string_view name,
                       const std::map<std::string, std::uint64_t, std::less<>>& counts) {
  if (counts.empty()) {
    return fmt::format("{}: none\n", name);
  }
  std::string line = fmt::format("{}:", name);
  for (const auto& [kind, count] : counts) {
    line += fmt::format(" {}={}", kind, count);
  }
  return line + "\n";
}

}  // namespace

std::string ToJson(const BenchReport& report) {
  const LoadResult& load = report.load;
  const Json json{{"bench", "locks"},
                  {"options", OfOptions(report.options)},
                  {"seconds", load.seconds},
                  {"pairs", load.pairs},
                  {"pairs_per_s", load.pairs_per_s},
                  {"operations", load.operations},
                  {"ops_per_s", load.ops_per_s},
                  {"acquire", OfLatency(load.acquire)},
                  {"renew", OfLatency(load.renew)},
                  {"release", OfLatency(load.release)},
                  {"pair", OfLatency(load.pair)},
                  {"window_worst", OfLatency(load.window_worst)},
                  {"window_gap", OfLatency(load.window_gap)},
                  {"longest_gap_ms", load.longest_gap_ms},
                  {"backlog", report.backlog},
                  {"unanswered", report.unanswered},
                  {"timeline", OfTimeline(load.timeline)},
                  {"refusals", load.refusals},
                  {"errors", load.errors},
                  {"client_cpu_percent", load.client_cpu_percent},
                  {"server_cpu_percent", load.server_cpu_percent},
                  {"other_cpu_percent", load.other_cpu_percent}};
  return json.dump(2) + "\n";
}

std::string ToText(const BenchReport& report) {
  const LoadResult& load = report.load;
  const LocksBenchOptions& options = report.options;
  std::string text =
      fmt::format("{} x {}, {:.1f} s measured: {:.0f} pairs/s, {:.0f} ops/s\n", options.concurrency,
                  LoadModeName(options.mode), load.seconds, load.pairs_per_s, load.ops_per_s);
  text += fmt::format("  {:<14}{:>10}{:>10}{:>10}{:>10}{:>10}{:>10}\n", "ms", "count", "p50", "p95",
                      "p99", "p99.9", "max");
  text += LatencyLine("acquire", load.acquire);
  text += LatencyLine("renew", load.renew);
  text += LatencyLine("release", load.release);
  text += LatencyLine("pair", load.pair);
  text += LatencyLine("worst/100ms", load.window_worst);
  text += LatencyLine("gap/100ms", load.window_gap);
  text += fmt::format("longest time without a completion: {:.3f} ms\n", load.longest_gap_ms);
  if (options.rate > 0) {
    text += fmt::format("open loop at {:.0f} pairs/s: {} due but not begun at the end\n",
                        options.rate, report.backlog);
  }
  text += CountsLine("refusals", load.refusals);
  text += CountsLine("errors", load.errors);
  text += fmt::format(
      "CPU (100 % = one core): client {:.0f} %, server {}, others {:.0f} %\n",
      load.client_cpu_percent,
      options.server_pid == 0 ? "not watched" : fmt::format("{:.0f} %", load.server_cpu_percent),
      load.other_cpu_percent);
  return text;
}

}  // namespace holdfast::bench
