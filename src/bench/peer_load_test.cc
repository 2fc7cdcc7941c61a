// The peer clients against real servers.
#include "bench/peer_load.h"

#include <memory>
#include <optional>
#include <string>

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <hiredis/hiredis.h>
#include <signal.h>

#include "bench/local_server.h"
#include "etcdserverpb/lease.grpc.pb.h"

namespace holdfast::bench {
namespace {

class RedisLoadTest : public testing::Test {
 protected:
  void SetUp() override {
    Result<ScratchDirectory> directory = ScratchDirectory::Create(testing::TempDir());
    ASSERT_TRUE(directory.ok());
    directory_.emplace(std::move(*directory));
    port_ = FreePort().value();
    Result<LocalServer> server =
        LocalServer::Start({.name = "redis",
                            .command = {"redis-server", "--port", std::to_string(port_), "--bind",
                                        "127.0.0.1", "--dir", directory_->path(), "--save", ""},
                            .log_file = directory_->path() + "/log",
                            .ready = [this] { return RespAnswers(port_); }});
    ASSERT_TRUE(server.ok()) << server.error().message;
    server_.emplace(std::move(*server));
    redis_.reset(redisConnect("127.0.0.1", port_));
    ASSERT_TRUE(redis_ != nullptr && redis_->err == 0);
  }

  PeerLoadOptions Quick() const {
    PeerLoadOptions options;
    options.port = port_;
    options.connections = 3;
    options.warm_up = Millis(50);
    options.duration = Millis(200);
    return options;
  }

  // Text of a string reply, number of an integer reply.
  std::string Ask(const char* command) {
    const std::unique_ptr<redisReply, void (*)(void*)> reply(
        static_cast<redisReply*>(redisCommand(redis_.get(), command)), freeReplyObject);
    if (reply == nullptr) {
      return "no reply";
    }
    return reply->type == REDIS_REPLY_INTEGER ? std::to_string(reply->integer)
                                              : std::string(reply->str, reply->len);
  }

  std::uint64_t CallsOf(const std::string& command) {
    const std::string stats = Ask("INFO commandstats");
    const std::string field = "cmdstat_" + command + ":calls=";
    const std::size_t at = stats.find(field);
    return at == std::string::npos ? 0 : std::stoull(stats.substr(at + field.size()));
  }

  std::optional<ScratchDirectory> directory_;
  int port_ = 0;
  std::optional<LocalServer> server_;
  std::unique_ptr<redisContext, void (*)(redisContext*)> redis_{nullptr, redisFree};
};

TEST_F(RedisLoadTest, LocksAndUnlocksAndLeavesNothing) {
  const Result<LoadResult> load = RunRespLoad(Quick(), RespSystem::kRedis);
  ASSERT_TRUE(load.ok()) << load.error().message;
  EXPECT_GT(load->pairs, 0U);
  EXPECT_EQ(Total(load->errors) + Total(load->refusals), 0U);
  EXPECT_GT(load->pair.p50_ms, load->acquire.p50_ms);
  EXPECT_EQ(Ask("DBSIZE"), "0");
  EXPECT_GE(CallsOf("set"), load->pairs);
  EXPECT_EQ(CallsOf("del"), CallsOf("set")) << "each lock was deleted by its own value";
}

TEST_F(RedisLoadTest, PipelinesOnOneConnection) {
  PeerLoadOptions options = Quick();
  options.connections = 1;
  options.outstanding = 200;
  const Result<LoadResult> load = RunRespLoad(options, RespSystem::kRedis);
  ASSERT_TRUE(load.ok()) << load.error().message;
  EXPECT_GT(load->pairs, 0U);
  EXPECT_EQ(Total(load->errors) + Total(load->refusals), 0U);
  EXPECT_EQ(Ask("DBSIZE"), "0");
}

TEST_F(RedisLoadTest, CountsALockThatIsNotFree) {
  Ask("SET bench/0 somebody");
  const Result<LoadResult> load = RunRespLoad(Quick(), RespSystem::kRedis);
  ASSERT_TRUE(load.ok()) << load.error().message;
  EXPECT_GT(load->refusals.at("HELD"), 0U);
  EXPECT_GT(load->pairs, 0U) << "the other two connections go on";
  EXPECT_EQ(Ask("GET bench/0"), "somebody");
}

TEST_F(RedisLoadTest, CountsErrorReplies) {
  Ask("CONFIG SET maxmemory 1");
  const Result<LoadResult> load = RunRespLoad(Quick(), RespSystem::kRedis);
  ASSERT_TRUE(load.ok()) << load.error().message;
  EXPECT_GT(load->errors.at("REPLY"), 0U);
  EXPECT_EQ(load->pairs, 0U);
}

class EtcdLoadTest : public testing::Test {
 protected:
  void SetUp() override {
    Result<ScratchDirectory> directory = ScratchDirectory::Create(testing::TempDir());
    ASSERT_TRUE(directory.ok());
    directory_.emplace(std::move(*directory));
    port_ = FreePort().value();
    const std::string client = "http://127.0.0.1:" + std::to_string(port_);
    const std::string peer = "http://127.0.0.1:" + std::to_string(FreePort().value());
    Result<LocalServer> server = LocalServer::Start(
        {.name = "etcd",
         .command = {"etcd", "--data-dir", directory_->path() + "/data", "--listen-client-urls",
                     client, "--advertise-client-urls", client, "--listen-peer-urls", peer,
                     "--initial-advertise-peer-urls", peer, "--initial-cluster", "default=" + peer},
         .log_file = directory_->path() + "/log",
         .ready = [this] { return EtcdAnswers(port_); }});
    ASSERT_TRUE(server.ok()) << server.error().message;
    server_.emplace(std::move(*server));
  }

  PeerLoadOptions Quick() const {
    PeerLoadOptions options;
    options.port = port_;
    options.connections = 2;
    options.outstanding = 2;
    options.warm_up = Millis(50);
    options.duration = Millis(400);
    options.server_pid = server_->pid();
    return options;
  }

  // The number of leases that are there.
  std::size_t Leases() const {
    const auto channel = grpc::CreateChannel("127.0.0.1:" + std::to_string(port_),
                                             grpc::InsecureChannelCredentials());
    grpc::ClientContext context;
    etcdserverpb::LeaseLeasesResponse response;
    const grpc::Status status =
        etcdserverpb::Lease::NewStub(channel)->LeaseLeases(&context, {}, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return static_cast<std::size_t>(response.leases_size());
  }

  std::optional<ScratchDirectory> directory_;
  int port_ = 0;
  std::optional<LocalServer> server_;
};

TEST_F(EtcdLoadTest, LocksAndUnlocksWithALeaseForEachName) {
  const std::size_t leases = Leases();
  const Result<LoadResult> load = RunEtcdLoad(Quick(), EtcdLease::kReused);
  ASSERT_TRUE(load.ok()) << load.error().message;
  EXPECT_GT(load->pairs, 0U);
  EXPECT_EQ(load->release.count, load->pairs);
  EXPECT_EQ(Total(load->errors), 0U);
  EXPECT_GT(load->server_cpu_percent, 0);
  EXPECT_EQ(Leases(), leases + 4);
}

TEST_F(EtcdLoadTest, GrantsAndRevokesALeaseForEachPair) {
  const std::size_t leases = Leases();
  const Result<LoadResult> load = RunEtcdLoad(Quick(), EtcdLease::kPerLock);
  ASSERT_TRUE(load.ok()) << load.error().message;
  EXPECT_GT(load->pairs, 0U);
  EXPECT_EQ(load->release.count, load->pairs);
  EXPECT_EQ(Total(load->errors), 0U);
  EXPECT_EQ(Leases(), leases) << "a lease was left behind";
}

TEST(PeerLoad, SaysWhereItCannotConnect) {
  PeerLoadOptions options;
  options.port = 1;
  const Result<LoadResult> load = RunRespLoad(options, RespSystem::kRedis);
  ASSERT_FALSE(load.ok());
  EXPECT_EQ(load.error().code, ErrorCode::kUnavailable);
  EXPECT_FALSE(RespAnswers(1));
  EXPECT_FALSE(EtcdAnswers(1));
}

TEST(LocalServer, EndsWhatItStarted) {
  Result<ScratchDirectory> directory = ScratchDirectory::Create(testing::TempDir());
  ASSERT_TRUE(directory.ok());
  pid_t pid = 0;
  {
    const Result<LocalServer> server = LocalServer::Start({.name = "tail",
                                                           .command = {"tail", "-f", "/dev/null"},
                                                           .log_file = directory->path() + "/log",
                                                           .ready = [] { return true; }});
    ASSERT_TRUE(server.ok());
    pid = server->pid();
    EXPECT_EQ(kill(pid, 0), 0);
  }
  EXPECT_EQ(kill(pid, 0), -1);
}

}  // namespace
}  // namespace holdfast::bench
