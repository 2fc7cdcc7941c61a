#include "bench/peers_bench.h"

#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
namespace holdfast::bench {
namespace {

PeerRow Row(const char* system, const char* mode, int repetition, double pairs_per_s) {
  PeerRow row{system, mode, 64, repetition, {}};
  row.load.pairs_per_s = pairs_per_s;
  row.load.pair.p99_ms = 1000 / pairs_per_s;
  return row;
}

// Redis halves its speed between the repetitions, and so does the other: the ratio stays, the
// medians do not show it.
std::vector<PeerRow> TwoRepetitions() {
  return {Row("redis", "connections", 1, 1000), Row("holdfast", "stream", 1, 500),
          Row("redis", "shared", 1, 9000),      Row("holdfast", "shared", 1, 9000),
          Row("redis", "connections", 2, 500),  Row("holdfast", "stream", 2, 260),
          Row("redis", "shared", 2, 9000),      Row("holdfast", "shared", 2, 18000)};
}

TEST(PeersReport, RatiosAreTakenInsideARepetitionAndAKind) {
  const std::vector<PeerSummary> summary = Summarize(TwoRepetitions());
  ASSERT_EQ(summary.size(), 4U);
  EXPECT_EQ(summary[1].system, "holdfast");
  EXPECT_EQ(summary[1].mode, "stream");
  EXPECT_DOUBLE_EQ(summary[1].pairs_per_s, 380);
  EXPECT_DOUBLE_EQ(summary[1].to_redis.min, 0.5);
  EXPECT_DOUBLE_EQ(summary[1].to_redis.max, 0.52);
  EXPECT_DOUBLE_EQ(summary[1].to_redis.median, 0.51);
  EXPECT_DOUBLE_EQ(summary[1].to_etcd.median, 0);
  EXPECT_EQ(summary[3].mode, "shared");
  EXPECT_DOUBLE_EQ(summary[3].to_redis.max, 2);
}

TEST(PeersReport, RatiosReferToEtcdWithAReusedLease) {
  const std::vector<PeerSummary> summary =
      Summarize({Row("etcd", "lease-per-lock", 1, 100), Row("etcd", "connections", 1, 400),
                 Row("holdfast", "stream", 1, 1200)});
  ASSERT_EQ(summary.size(), 3U);
  EXPECT_DOUBLE_EQ(summary[0].to_etcd.median, 0.25);
  EXPECT_DOUBLE_EQ(summary[1].to_etcd.max, 1);
  EXPECT_DOUBLE_EQ(summary[2].to_etcd.min, 3);
  EXPECT_DOUBLE_EQ(summary[2].to_etcd.max, 3);
}

TEST(PeersReport, JsonAndTextHaveEveryRow) {
  PeersReport report;
  report.rows = TwoRepetitions();
  report.rows[1].load.errors = {{"UNAVAILABLE", 3}};
  const auto json = nlohmann::json::parse(ToJson(report));
  EXPECT_EQ(json.at("bench"), "peers");
  ASSERT_EQ(json.at("rows").size(), 8U);
  const auto& row = json.at("rows").at(1);
  EXPECT_EQ(row.at("system"), "holdfast");
  EXPECT_EQ(row.at("mode"), "stream");
  EXPECT_EQ(row.at("concurrency"), 64);
  EXPECT_EQ(row.at("repetition"), 1);
  EXPECT_EQ(row.at("pairs_per_s"), 500.0);
  EXPECT_EQ(row.at("p99_ms"), 2.0);
  EXPECT_EQ(row.at("errors"), 3);
  for (const char* name : {"p50_ms", "p95_ms", "acquire_p50_ms", "acquire_p99_ms",
                           "client_cpu_percent", "server_cpu_percent", "other_cpu_percent"}) {
    EXPECT_TRUE(row.at(name).is_number()) << name;
  }
  EXPECT_EQ(json.at("summary").at(1).at("to_redis").at("min"), 0.5);
  EXPECT_TRUE(json.at("summary").at(1).at("to_etcd").is_null());
  EXPECT_NE(ToText(report).find("0.51 (0.50..0.52)"), std::string::npos);
}

TEST(PeersBench, RunsRedisAndEtcdSideBySide) {
  PeersBenchOptions options;
  options.concurrency = {4};
  options.shared = 8;
  options.repetitions = 1;
  options.warm_up = Millis(100);
  options.duration = Millis(400);
  options.work_dir = testing::TempDir();
  Result<PeersReport> report = RunPeersBench(options);
  ASSERT_TRUE(report.ok()) << report.error().message;
  ASSERT_EQ(report->rows.size(), 5U);
  for (const PeerRow& row : report->rows) {
    EXPECT_GT(row.load.pairs, 0U) << row.system << " " << row.mode;
    // Pairs that lie across the begin or the end of the measurement count with one operation only.
    EXPECT_NEAR(static_cast<double>(row.load.operations) / 2, static_cast<double>(row.load.pairs),
                row.concurrency)
        << row.system << " " << row.mode;
    EXPECT_EQ(Total(row.load.errors) + Total(row.load.refusals), 0U) << row.system;
  }
  const std::vector<PeerSummary> summary = Summarize(report->rows);
  EXPECT_EQ(summary[1].system, "etcd");
  EXPECT_GT(summary[1].to_redis.median, 0);
}

TEST(PeersBench, SaysWhyAServerDidNotStart) {
  PeersBenchOptions options;
  options.redis = "/bin/echo";
  options.etcd = "";
  options.work_dir = testing::TempDir();
  const Result<PeersReport> report = RunPeersBench(options);
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(report.error().message.find("redis (/bin/echo) ended at once"), std::string::npos)
      << report.error().message;
  EXPECT_NE(report.error().message.find("--appendfsync always"), std::string::npos)
      << "the log is missing";
}

TEST(PeersBench, NamesTheOptionThatIsWrong) {
  PeersBenchOptions options;
  options.repetitions = 0;
  EXPECT_EQ(RunPeersBench(options).error().field, "repetitions");
  options.repetitions = 1;
  options.work_dir = "/nonexistent";
  EXPECT_EQ(RunPeersBench(options).error().field, "work_dir");
  options.work_dir = "/dev/shm";
  EXPECT_EQ(RunPeersBench(options).error().field, "work_dir");
}

}  // namespace
}  // namespace holdfast::bench
