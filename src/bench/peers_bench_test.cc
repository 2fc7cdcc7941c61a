#include "bench/peers_bench.h"

#include <cstdlib>
#include <optional>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "bench/local_server.h"

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
  EXPECT_EQ(json.at("rows").at(0).at("durable"), true);
  EXPECT_TRUE(json.at("left_out").empty());
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

TEST(PeersReport, TheTableHasRatiosToThosePeersThatRan) {
  PeersReport report;
  report.rows = {Row("etcd", "connections", 1, 400), Row("zookeeper", "connections", 1, 100),
                 Row("redlock", "connections", 1, 200), Row("holdfast", "stream", 1, 300)};
  const std::vector<PeerSummary> summary = Summarize(report.rows);
  EXPECT_DOUBLE_EQ(summary[3].to_zookeeper.median, 3);
  EXPECT_DOUBLE_EQ(summary[3].to_redlock.median, 1.5);
  const std::string text = ToText(report);
  EXPECT_EQ(text.find("to redis"), std::string::npos) << text;
  for (const char* column : {"to etcd", "to zookeeper", "to redlock"}) {
    EXPECT_NE(text.find(column), std::string::npos) << text;
  }
  EXPECT_EQ(text.find("of load before"), std::string::npos) << text;
  report.options.zookeeper = "zookeeper.jar";
  EXPECT_NE(ToText(report).find("ZooKeeper's servers had 15.0 s of load"), std::string::npos);
}

TEST(PeersReport, MarksWhatIsNotDurableAndNamesWhatIsMissing) {
  PeersReport report;
  report.rows = {Row("redis", "connections", 1, 1000), Row("postgresql", "advisory", 1, 5000)};
  report.left_out = {{"etcd", "etcd is not installed"}};
  const auto json = nlohmann::json::parse(ToJson(report));
  EXPECT_EQ(json.at("rows").at(1).at("durable"), false);
  EXPECT_EQ(json.at("summary").at(1).at("durable"), false);
  EXPECT_EQ(json.at("left_out").at(0).at("system"), "etcd");
  EXPECT_EQ(json.at("left_out").at(0).at("reason"), "etcd is not installed");
  const std::string text = ToText(report);
  const std::size_t row = text.find("postgresql");
  ASSERT_NE(row, std::string::npos);
  const std::string line = text.substr(row, text.find('\n', row) - row);
  EXPECT_NE(line.find("advisory"), std::string::npos) << line;
  EXPECT_NE(line.find("no durability"), std::string::npos) << line;
  EXPECT_EQ(text.find("no durability"), text.rfind("no durability"));
  EXPECT_NE(text.find("etcd was left out: etcd is not installed"), std::string::npos);
}

TEST(PeersBench, RunsEveryPeerSideBySide) {
  PeersBenchOptions options;
  options.concurrency = {4};
  options.shared = 8;
  options.repetitions = 1;
  options.warm_up = Millis(100);
  options.duration = Millis(400);
  options.work_dir = testing::TempDir();
  Result<PeersReport> report = RunPeersBench(options);
  ASSERT_TRUE(report.ok()) << report.error().message;
  ASSERT_TRUE(report->left_out.empty()) << report->left_out.front().reason;
  ASSERT_EQ(report->rows.size(), 6U);
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

TEST(PeersBench, RunsClustersOnRequest) {
  PeersBenchOptions options;
  options.redis = "";
  options.etcd = "";
  options.postgres = "";
  options.zookeeper = "/usr/share/java/zookeeper.jar";
  options.zookeeper_warm_up = Millis(200);
  options.redlock = kUsualRedis;
  options.concurrency = {4};
  options.shared = 8;
  options.repetitions = 1;
  options.warm_up = Millis(100);
  options.duration = Millis(400);
  options.work_dir = testing::TempDir();
  const Result<PeersReport> report = RunPeersBench(options);
  ASSERT_TRUE(report.ok()) << report.error().message;
  ASSERT_EQ(report->rows.size(), 4U);
  for (const PeerRow& row : report->rows) {
    EXPECT_GT(row.load.pairs, 0U) << row.system << " " << row.mode;
    EXPECT_GT(row.load.server_cpu_percent, 0) << row.system << " " << row.mode;
    EXPECT_EQ(Total(row.load.errors) + Total(row.load.refusals), 0U) << row.system;
  }
  EXPECT_EQ(report->rows[0].system, "zookeeper");
  EXPECT_EQ(report->rows[3].system, "redlock");
  EXPECT_EQ(report->rows[3].mode, "shared");
  const auto json = nlohmann::json::parse(ToJson(*report));
  EXPECT_EQ(json.at("zookeeper_warm_up_ms"), 200);
  EXPECT_GT(json.at("summary").at(0).at("to_redlock").at("median"), 0);
  EXPECT_GT(json.at("summary").at(1).at("to_zookeeper").at("median"), 0);
}

TEST(PeersBench, SaysWhyAServerDidNotStart) {
  PeersBenchOptions options;
  options.redis = "/bin/echo";
  options.etcd = "";
  options.postgres = "";
  options.work_dir = testing::TempDir();
  const Result<PeersReport> report = RunPeersBench(options);
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(report.error().message.find("redis (/bin/echo) ended at once"), std::string::npos)
      << report.error().message;
  EXPECT_NE(report.error().message.find("--appendfsync always"), std::string::npos)
      << "the log is missing";
}

TEST(PeersBench, LeavesOutWhatIsNotInstalled) {
  PeersBenchOptions options;
  options.postgres = "";
  options.work_dir = testing::TempDir();
  // No other thread reads it meanwhile.
  const std::string path = getenv("PATH");  // NOLINT(concurrency-mt-unsafe)
  setenv("PATH", "/nonexistent", 1);        // NOLINT(concurrency-mt-unsafe)
  const Result<PeersReport> report = RunPeersBench(options);
  setenv("PATH", path.c_str(), 1);  // NOLINT(concurrency-mt-unsafe)
  ASSERT_TRUE(report.ok()) << report.error().message;
  EXPECT_TRUE(report->rows.empty());
  ASSERT_EQ(report->left_out.size(), 2U);
  EXPECT_EQ(report->left_out[0].system, "redis");
  EXPECT_EQ(report->left_out[0].reason, "redis-server is not installed");
  EXPECT_EQ(report->left_out[1].system, "etcd");
}

TEST(PeersBench, LeavesOutPostgresWhereItsUserCannotGo) {
  if (geteuid() != 0) {
    GTEST_SKIP() << "PostgreSQL runs as the user of this test";
  }
  const Result<ScratchDirectory> private_directory = ScratchDirectory::Create(testing::TempDir());
  ASSERT_TRUE(private_directory.ok());
  PeersBenchOptions options;
  options.redis = "";
  options.etcd = "";
  options.work_dir = private_directory->path();
  const Result<PeersReport> report = RunPeersBench(options);
  ASSERT_TRUE(report.ok()) << report.error().message;
  ASSERT_EQ(report->left_out.size(), 1U);
  EXPECT_EQ(report->left_out[0].system, "postgresql");
  EXPECT_NE(report->left_out[0].reason.find("ermission denied"), std::string::npos)
      << report->left_out[0].reason;
  options.postgres = kUsualPostgres;
  EXPECT_EQ(RunPeersBench(options).error().code, ErrorCode::kUnavailable);
}

TEST(PeersBench, NamesTheOptionThatIsWrong) {
  PeersBenchOptions options;
  options.repetitions = 0;
  EXPECT_EQ(RunPeersBench(options).error().field, "repetitions");
  options.repetitions = 1;
  for (std::optional<std::string>* peer : {&options.redis, &options.etcd, &options.postgres}) {
    *peer = "/nonexistent/program";
  }
  options.work_dir = testing::TempDir();
  EXPECT_EQ(RunPeersBench(options).error().field, "redis");
  options.redis = "";
  EXPECT_EQ(RunPeersBench(options).error().field, "etcd");
  options.etcd = "";
  EXPECT_EQ(RunPeersBench(options).error().field, "postgres");
  options.postgres = "";
  options.zookeeper = "/nonexistent/zookeeper.jar";
  EXPECT_EQ(RunPeersBench(options).error().field, "zookeeper");
  options.zookeeper = "";
  options.redlock = "/nonexistent/redis-server";
  EXPECT_EQ(RunPeersBench(options).error().field, "redlock");
  options.redlock = "";
  options.zookeeper_warm_up = Seconds(601);
  EXPECT_EQ(RunPeersBench(options).error().field, "zookeeper_warm_up");
  options.zookeeper_warm_up = Duration(0);
  options.work_dir = "/nonexistent";
  EXPECT_EQ(RunPeersBench(options).error().field, "work_dir");
  options.work_dir = "/dev/shm";
  EXPECT_EQ(RunPeersBench(options).error().field, "work_dir");
}

}  // namespace
}  // namespace holdfast::bench
