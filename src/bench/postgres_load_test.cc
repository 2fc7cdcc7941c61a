// The load on PostgreSQL against a real server.
#include <memory>
#include <optional>
#include <string>

#include <gtest/gtest.h>
#include <libpq-fe.h>

#include "bench/cpu_usage.h"
#include "bench/peer_load.h"
#include "bench/peers_bench.h"
#include "bench/postgres_server.h"

namespace holdfast::bench {
namespace {

class PostgresLoadTest : public testing::Test {
 protected:
  void SetUp() override {
    Result<PostgresCluster> cluster = PostgresCluster::Create(kUsualPostgres, testing::TempDir());
    ASSERT_TRUE(cluster.ok()) << cluster.error().message;
    cluster_.emplace(std::move(*cluster));
    Result<ScratchDirectory> logs = ScratchDirectory::Create(testing::TempDir());
    ASSERT_TRUE(logs.ok());
    logs_.emplace(std::move(*logs));
    port_ = FreePort().value();
    Result<LocalServer> server = cluster_->Start(port_, 8, logs_->path() + "/log");
    ASSERT_TRUE(server.ok()) << server.error().message;
    server_.emplace(std::move(*server));
    admin_.reset(PQconnectdb(Where(cluster_->password()).c_str()));
    ASSERT_EQ(PQstatus(admin_.get()), CONNECTION_OK) << PQerrorMessage(admin_.get());
  }

  std::string Where(const std::string& password) const {
    return "hostaddr=127.0.0.1 sslmode=disable dbname=postgres user=bench port=" +
           std::to_string(port_) + " password=" + password;
  }

  PeerLoadOptions Quick() const {
    PeerLoadOptions options;
    options.port = port_;
    options.password = cluster_->password();
    options.connections = 3;
    options.warm_up = Millis(50);
    options.duration = Millis(300);
    options.server_pid = server_->pid();
    return options;
  }

  // The first field of the answer.
  std::string Ask(const std::string& sql) {
    const std::unique_ptr<PGresult, void (*)(PGresult*)> result(PQexec(admin_.get(), sql.c_str()),
                                                                PQclear);
    EXPECT_TRUE(PQresultStatus(result.get()) == PGRES_TUPLES_OK ||
                PQresultStatus(result.get()) == PGRES_COMMAND_OK)
        << PQerrorMessage(admin_.get());
    return PQntuples(result.get()) == 0 ? "" : PQgetvalue(result.get(), 0, 0);
  }

  // What the load calls from now on in place of pg_try_advisory_lock, in PL/pgSQL.
  void Replace(const std::string& body) {
    Ask("CREATE SCHEMA shadow");
    Ask("CREATE FUNCTION shadow.pg_try_advisory_lock(key bigint) RETURNS boolean "
        "LANGUAGE plpgsql AS $$ BEGIN " +
        body + " RETURN pg_catalog.pg_try_advisory_lock(key); END $$");
    Ask("ALTER ROLE bench SET search_path = shadow, pg_catalog");
  }

  std::optional<PostgresCluster> cluster_;
  std::optional<ScratchDirectory> logs_;
  int port_ = 0;
  std::optional<LocalServer> server_;
  std::unique_ptr<PGconn, void (*)(PGconn*)> admin_{nullptr, PQfinish};
};

TEST_F(PostgresLoadTest, LocksAndUnlocks) {
  const Result<LoadResult> load = RunPostgresLoad(Quick());
  ASSERT_TRUE(load.ok()) << load.error().message;
  EXPECT_GT(load->pairs, 0U);
  EXPECT_EQ(load->release.count, load->pairs);
  EXPECT_EQ(Total(load->errors) + Total(load->refusals), 0U);
  EXPECT_GT(load->pair.p50_ms, load->acquire.p50_ms);
  // The sessions' processes do the work, not the one that was started.
  EXPECT_GT(load->server_cpu_percent, 5);
}

TEST_F(PostgresLoadTest, ReturnsWhenItsSessionsHaveEnded) {
  ASSERT_EQ(Ask("SELECT 1"), "1");
  const int before = CountChildren(server_->pid());
  ASSERT_GT(before, 0);
  const Result<LoadResult> load = RunPostgresLoad(Quick());
  ASSERT_TRUE(load.ok()) << load.error().message;
  EXPECT_LE(CountChildren(server_->pid()), before);
}

TEST_F(PostgresLoadTest, CountsALockThatIsNotFree) {
  Ask("SELECT pg_advisory_lock(0)");
  const Result<LoadResult> load = RunPostgresLoad(Quick());
  ASSERT_TRUE(load.ok()) << load.error().message;
  EXPECT_GT(load->refusals.at("HELD"), 0U);
  EXPECT_GT(load->pairs, 0U) << "the other two connections go on";
  EXPECT_EQ(Ask("SELECT pg_advisory_unlock(0)"), "t");
}

TEST_F(PostgresLoadTest, CountsALockThatWasLost) {
  Replace("IF key = 1 THEN RETURN true; END IF;");
  const Result<LoadResult> load = RunPostgresLoad(Quick());
  ASSERT_TRUE(load.ok()) << load.error().message;
  EXPECT_GT(load->refusals.at("RELEASE_GONE"), 0U);
  EXPECT_GT(load->pairs, 0U);
}

TEST_F(PostgresLoadTest, CountsErrorsByTheirSqlState) {
  Replace("IF key = 2 THEN RAISE EXCEPTION 'no' USING ERRCODE = '53200'; END IF;");
  const Result<LoadResult> load = RunPostgresLoad(Quick());
  ASSERT_TRUE(load.ok()) << load.error().message;
  EXPECT_GT(load->errors.at("53200"), 0U);
  EXPECT_GT(load->pairs, 0U);
}

TEST_F(PostgresLoadTest, EndsWithAConnectionThatBreaks) {
  Replace("PERFORM pg_terminate_backend(pg_backend_pid());");
  const Result<LoadResult> load = RunPostgresLoad(Quick());
  ASSERT_FALSE(load.ok());
  EXPECT_EQ(load.error().code, ErrorCode::kUnavailable);
}

TEST_F(PostgresLoadTest, WantsThePassword) {
  PeerLoadOptions options = Quick();
  options.password = "another";
  const Result<LoadResult> load = RunPostgresLoad(options);
  ASSERT_FALSE(load.ok());
  EXPECT_EQ(load.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(load.error().message.find("password"), std::string::npos) << load.error().message;
}

TEST_F(PostgresLoadTest, StartsAgainOnTheSameCluster) {
  server_.reset();
  EXPECT_FALSE(PostgresAnswers(port_));
  Result<LocalServer> server = cluster_->Start(port_, 8, logs_->path() + "/log");
  ASSERT_TRUE(server.ok()) << server.error().message;
  EXPECT_TRUE(PostgresAnswers(port_));
}

TEST(PostgresCluster, SaysWhyInitdbFailed) {
  const Result<PostgresCluster> cluster =
      PostgresCluster::Create("/nonexistent", testing::TempDir());
  ASSERT_FALSE(cluster.ok());
  EXPECT_EQ(cluster.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(cluster.error().message.find("/nonexistent/initdb"), std::string::npos)
      << cluster.error().message;
}

}  // namespace
}  // namespace holdfast::bench
