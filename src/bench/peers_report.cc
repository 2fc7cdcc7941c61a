// RunPeersBench's rows as summary, JSON and text.
#include <algorithm>
#include <vector>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "bench/peers_bench.h"

namespace holdfast::bench {
namespace {

using Json = nlohmann::ordered_json;

double Median(std::vector<double> values) {
  if (values.empty()) {
    return 0;
  }
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

bool Comparable(const PeerRow& a, const PeerRow& b) {
  return a.concurrency == b.concurrency && a.repetition == b.repetition &&
         IsShared(a.mode) == IsShared(b.mode);
}

Ratio RatioTo(const std::string& peer, const std::vector<const PeerRow*>& group,
              const std::vector<PeerRow>& rows) {
  std::vector<double> ratios;
  for (const PeerRow* row : group) {
    for (const PeerRow& other : rows) {
      if (other.system == peer && IsReference(other.mode) && Comparable(*row, other) &&
          other.load.pairs_per_s > 0) {
        ratios.push_back(row->load.pairs_per_s / other.load.pairs_per_s);
      }
    }
  }
  if (ratios.empty()) {
    return {};
  }
  const auto [min, max] = std::minmax_element(ratios.begin(), ratios.end());
  return Ratio{.median = Median(ratios), .min = *min, .max = *max};
}

PeerSummary SummarizeGroup(const std::vector<const PeerRow*>& group,
                           const std::vector<PeerRow>& rows) {
  const auto median = [&group](auto figure) {
    std::vector<double> values;
    for (const PeerRow* row : group) {
      values.push_back(figure(row->load));
    }
    return Median(values);
  };
  PeerSummary summary;
  summary.system = group.front()->system;
  summary.mode = group.front()->mode;
  summary.concurrency = group.front()->concurrency;
  summary.pairs_per_s = median([](const LoadResult& l) { return l.pairs_per_s; });
  summary.p50_ms = median([](const LoadResult& l) { return l.pair.p50_ms; });
  summary.p95_ms = median([](const LoadResult& l) { return l.pair.p95_ms; });
  summary.p99_ms = median([](const LoadResult& l) { return l.pair.p99_ms; });
  summary.acquire_p99_ms = median([](const LoadResult& l) { return l.acquire.p99_ms; });
  summary.client_cpu_percent = median([](const LoadResult& l) { return l.client_cpu_percent; });
  summary.server_cpu_percent = median([](const LoadResult& l) { return l.server_cpu_percent; });
  summary.other_cpu_percent = median([](const LoadResult& l) { return l.other_cpu_percent; });
  for (const PeerRow* row : group) {
    summary.errors += Total(row->load.errors) + Total(row->load.refusals);
  }
  summary.to_redis = RatioTo("redis", group, rows);
  summary.to_etcd = RatioTo("etcd", group, rows);
  summary.to_zookeeper = RatioTo("zookeeper", group, rows);
  summary.to_redlock = RatioTo("redlock", group, rows);
  return summary;
}

Json OfRow(const PeerRow& row) {
  return Json{{"system", row.system},
              {"mode", row.mode},
              {"concurrency", row.concurrency},
              {"durable", IsDurable(row.system)},
              {"repetition", row.repetition},
              {"pairs_per_s", row.load.pairs_per_s},
              {"p50_ms", row.load.pair.p50_ms},
              {"p95_ms", row.load.pair.p95_ms},
              {"p99_ms", row.load.pair.p99_ms},
              {"acquire_p50_ms", row.load.acquire.p50_ms},
              {"acquire_p99_ms", row.load.acquire.p99_ms},
              {"errors", Total(row.load.errors) + Total(row.load.refusals)},
              {"client_cpu_percent", row.load.client_cpu_percent},
              {"server_cpu_percent", row.load.server_cpu_percent},
              {"other_cpu_percent", row.load.other_cpu_percent}};
}

Json OfRatio(const Ratio& ratio) {
  if (ratio.median == 0) {
    return nullptr;
  }
  return Json{{"median", ratio.median}, {"min", ratio.min}, {"max", ratio.max}};
}

Json OfSummary(const PeerSummary& summary) {
  return Json{{"system", summary.system},
              {"mode", summary.mode},
              {"concurrency", summary.concurrency},
              {"durable", IsDurable(summary.system)},
              {"pairs_per_s", summary.pairs_per_s},
              {"p50_ms", summary.p50_ms},
              {"p95_ms", summary.p95_ms},
              {"p99_ms", summary.p99_ms},
              {"acquire_p99_ms", summary.acquire_p99_ms},
              {"errors", summary.errors},
              {"client_cpu_percent", summary.client_cpu_percent},
              {"server_cpu_percent", summary.server_cpu_percent},
              {"other_cpu_percent", summary.other_cpu_percent},
              {"to_redis", OfRatio(summary.to_redis)},
              {"to_etcd", OfRatio(summary.to_etcd)},
              {"to_zookeeper", OfRatio(summary.to_zookeeper)},
              {"to_redlock", OfRatio(summary.to_redlock)}};
}

std::string RatioText(const Ratio& ratio) {
  if (ratio.median == 0) {
    return "-";
  }
  return fmt::format("{:.2f} ({:.2f}..{:.2f})", ratio.median, ratio.min, ratio.max);
}

// A column of ratios, which is there if its peer has been measured.
struct RatioColumn {
  const char* title;
  Ratio PeerSummary::*ratio;
};

std::vector<RatioColumn> RatioColumns(const std::vector<PeerSummary>& summary) {
  std::vector<RatioColumn> columns = {{"to redis", &PeerSummary::to_redis},
                                      {"to etcd", &PeerSummary::to_etcd},
                                      {"to zookeeper", &PeerSummary::to_zookeeper},
                                      {"to redlock", &PeerSummary::to_redlock}};
  const auto unused = [&summary](const RatioColumn& column) {
    return std::all_of(summary.begin(), summary.end(), [&column](const PeerSummary& row) {
      return (row.*column.ratio).median == 0;
    });
  };
  columns.erase(std::remove_if(columns.begin(), columns.end(), unused), columns.end());
  return columns;
}

bool WarmedZooKeeper(const PeersReport& report) {
  return !report.options.zookeeper.empty();
}

}  // namespace

std::vector<PeerSummary> Summarize(const std::vector<PeerRow>& rows) {
  std::vector<std::vector<const PeerRow*>> groups;
  for (const PeerRow& row : rows) {
    const auto same = [&row](const std::vector<const PeerRow*>& group) {
      const PeerRow& first = *group.front();
      return first.system == row.system && first.mode == row.mode &&
             first.concurrency == row.concurrency;
    };
    const auto found = std::find_if(groups.begin(), groups.end(), same);
    if (found == groups.end()) {
      groups.push_back({&row});
    } else {
      found->push_back(&row);
    }
  }
  std::vector<PeerSummary> summaries;
  for (const auto& group : groups) {
    summaries.push_back(SummarizeGroup(group, rows));
  }
  return summaries;
}

std::string ToJson(const PeersReport& report) {
  Json rows = Json::array();
  for (const PeerRow& row : report.rows) {
    rows.push_back(OfRow(row));
  }
  Json summary = Json::array();
  for (const PeerSummary& group : Summarize(report.rows)) {
    summary.push_back(OfSummary(group));
  }
  Json left_out = Json::array();
  for (const LeftOut& peer : report.left_out) {
    left_out.push_back(Json{{"system", peer.system}, {"reason", peer.reason}});
  }
  Json json{{"bench", "peers"},
            {"repetitions", report.options.repetitions},
            {"warm_up_ms", ToMillis(report.options.warm_up)},
            {"duration_ms", ToMillis(report.options.duration)},
            {"rows", rows},
            {"summary", summary},
            {"left_out", left_out}};
  if (WarmedZooKeeper(report)) {
    json["zookeeper_warm_up_ms"] = ToMillis(report.options.zookeeper_warm_up);
  }
  return json.dump(2) + "\n";
}

std::string ToText(const PeersReport& report) {
  std::string text = fmt::format(
      "Medians of {} repetitions of {:.1f} s; latency of a pair in ms; ratios of pairs/s inside "
      "one "
      "repetition: median (min..max)\n",
      report.options.repetitions, ToMillisExact(report.options.duration) / 1000);
  if (WarmedZooKeeper(report)) {
    text += fmt::format("ZooKeeper's servers had {:.1f} s of load before their first measurement\n",
                        ToMillisExact(report.options.zookeeper_warm_up) / 1000);
  }
  const std::vector<PeerSummary> summary = Summarize(report.rows);
  const std::vector<RatioColumn> columns = RatioColumns(summary);
  text += fmt::format("{:<10} {:<14} {:>5} {:>9} {:>9} {:>9} {:>9}  ", "system", "mode", "conc",
                      "pairs/s", "p50", "p95", "p99");
  for (const RatioColumn& column : columns) {
    text += fmt::format("{:<21} ", column.title);
  }
  text += fmt::format("{:>14} {:>6}\n", "CPU srv/cl/oth", "errors");
  for (const PeerSummary& row : summary) {
    text +=
        fmt::format("{:<10} {:<14} {:>5} {:>9.0f} {:>9.3f} {:>9.3f} {:>9.3f}  ", row.system,
                    row.mode, row.concurrency, row.pairs_per_s, row.p50_ms, row.p95_ms, row.p99_ms);
    for (const RatioColumn& column : columns) {
      text += fmt::format("{:<21} ", RatioText(row.*column.ratio));
    }
    const std::string cpu = fmt::format("{:.0f}/{:.0f}/{:.0f}", row.server_cpu_percent,
                                        row.client_cpu_percent, row.other_cpu_percent);
    text += fmt::format("{:>14} {:>6}{}\n", cpu, row.errors,
                        IsDurable(row.system) ? "" : "  no durability");
  }
  for (const LeftOut& peer : report.left_out) {
    text += fmt::format("{} was left out: {}\n", peer.system, peer.reason);
  }
  return text;
}

}  // namespace holdfast::bench
