// The load of Redlock against real servers, without their disk.
#include <cstddef>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "bench/local_server.h"
#include "bench/peer_load.h"
#include "bench/resp_wire.h"

namespace holdfast::bench {
namespace {

class RedlockLoadTest : public testing::Test {
 protected:
  void SetUp() override {
    Result<ScratchDirectory> directory = ScratchDirectory::Create(testing::TempDir());
    ASSERT_TRUE(directory.ok());
    directory_.emplace(std::move(*directory));
    ports_ = FreePorts(kRedlockServers).value();
    for (const int port : ports_) {
      Result<LocalServer> server =
          LocalServer::Start({.name = "redis",
                              .command = {"redis-server", "--port", std::to_string(port), "--bind",
                                          "127.0.0.1", "--dir", directory_->path(), "--save", ""},
                              .log_file = directory_->path() + "/log" + std::to_string(port),
                              .ready = [port] { return RespAnswers(port); }});
      ASSERT_TRUE(server.ok()) << server.error().message;
      servers_.push_back(std::move(*server));
    }
  }

  PeerLoadOptions Quick() const {
    PeerLoadOptions options;
    options.ports = ports_;
    options.connections = 3;
    options.warm_up = Millis(50);
    options.duration = Millis(300);
    options.server_pid = servers_.front().pid();
    for (std::size_t i = 1; i < servers_.size(); ++i) {
      options.more_pids.push_back(servers_[i].pid());
    }
    return options;
  }

  // The reply of one server as text, with its kind in front.
  std::string Ask(std::size_t server, std::initializer_list<std::string_view> words) const {
    const Result<Socket> socket = ConnectTo(ports_[server]);
    EXPECT_TRUE(socket.ok()) << socket.error().message;
    return Call(*socket, words).value();
  }

  std::uint64_t CallsOf(std::size_t server, const std::string& command) const {
    const std::string stats = Ask(server, {"INFO", "commandstats"});
    const std::string field = "cmdstat_" + command + ":calls=";
    const std::size_t at = stats.find(field);
    return at == std::string::npos ? 0 : std::stoull(stats.substr(at + field.size()));
  }

  std::optional<ScratchDirectory> directory_;
  std::vector<int> ports_;
  std::vector<LocalServer> servers_;
};

TEST_F(RedlockLoadTest, LocksAndUnlocksOnEveryServerAndLeavesNothing) {
  const Result<LoadResult> load = RunRedlockLoad(Quick());
  ASSERT_TRUE(load.ok()) << load.error().message;
  EXPECT_GT(load->pairs, 0U);
  EXPECT_EQ(load->release.count, load->pairs);
  EXPECT_EQ(Total(load->errors) + Total(load->refusals), 0U);
  EXPECT_GT(load->pair.p50_ms, load->acquire.p50_ms);
  EXPECT_GT(load->server_cpu_percent, 0);
  for (std::size_t server = 0; server < ports_.size(); ++server) {
    EXPECT_EQ(Ask(server, {"DBSIZE"}), ":0") << server;
    EXPECT_GE(CallsOf(server, "set"), load->pairs) << server;
    EXPECT_EQ(CallsOf(server, "del"), CallsOf(server, "set")) << server;
  }
}

TEST_F(RedlockLoadTest, PipelinesOnOneClient) {
  PeerLoadOptions options = Quick();
  options.connections = 1;
  options.outstanding = 100;
  const Result<LoadResult> load = RunRedlockLoad(options);
  ASSERT_TRUE(load.ok()) << load.error().message;
  EXPECT_GT(load->pairs, 0U);
  EXPECT_EQ(Total(load->errors) + Total(load->refusals), 0U);
  EXPECT_EQ(Ask(4, {"DBSIZE"}), ":0");
}

TEST_F(RedlockLoadTest, AMajorityIsEnough) {
  for (const std::size_t server : {0UL, 3UL}) {
    Ask(server, {"SET", "bench/0", "somebody"});
  }
  const Result<LoadResult> load = RunRedlockLoad(Quick());
  ASSERT_TRUE(load.ok()) << load.error().message;
  EXPECT_GT(load->pairs, 0U);
  EXPECT_EQ(Total(load->errors) + Total(load->refusals), 0U);
  EXPECT_EQ(Ask(0, {"GET", "bench/0"}), "$somebody") << "not ours to delete";
}

TEST_F(RedlockLoadTest, ALockWithoutAMajorityIsGivenBackEverywhere) {
  for (const std::size_t server : {1UL, 2UL, 4UL}) {
    Ask(server, {"SET", "bench/0", "somebody"});
  }
  const Result<LoadResult> load = RunRedlockLoad(Quick());
  ASSERT_TRUE(load.ok()) << load.error().message;
  EXPECT_GT(load->refusals.at("HELD"), 0U);
  EXPECT_GT(load->pairs, 0U) << "the other two clients go on";
  EXPECT_EQ(Total(load->errors), 0U);
  for (const std::size_t server : {0UL, 3UL}) {
    EXPECT_EQ(Ask(server, {"DBSIZE"}), ":0") << server;
  }
  EXPECT_EQ(Ask(1, {"GET", "bench/0"}), "$somebody");
}

TEST_F(RedlockLoadTest, ALockThatTookLongerThanItsTtlIsNone) {
  PeerLoadOptions options = Quick();
  options.ttl = Millis(1);  // less than what clocks may differ by
  const Result<LoadResult> load = RunRedlockLoad(options);
  ASSERT_TRUE(load.ok()) << load.error().message;
  EXPECT_GT(load->refusals.at("EXPIRED"), 0U);
  EXPECT_EQ(load->pairs, 0U);
}

TEST_F(RedlockLoadTest, CountsErrorReplies) {
  for (const std::size_t server : {0UL, 1UL, 2UL}) {
    Ask(server, {"CONFIG", "SET", "maxmemory", "1"});
  }
  const Result<LoadResult> load = RunRedlockLoad(Quick());
  ASSERT_TRUE(load.ok()) << load.error().message;
  EXPECT_GT(load->errors.at("REPLY"), 0U);
  EXPECT_EQ(Total(load->refusals), 0U);
  EXPECT_EQ(load->pairs, 0U);
}

TEST_F(RedlockLoadTest, AServerThatFallsBehindGetsNoMoreThanItsLimit) {
  Ask(2, {"CLIENT", "PAUSE", "2000", "WRITE"});
  PeerLoadOptions options = Quick();
  options.warm_up = Duration(0);  // the limit may be reached within it
  const Result<LoadResult> load = RunRedlockLoad(options);
  ASSERT_TRUE(load.ok()) << load.error().message;
  EXPECT_GT(load->pairs, 0U);
  // A lock takes two commands of each server.
  EXPECT_LE(CallsOf(0, "set"), 3U * kMostOwed / 2);
  EXPECT_EQ(Ask(2, {"DBSIZE"}), ":0") << "the late ones were waited for";
  EXPECT_EQ(Total(load->errors) + Total(load->refusals), 0U);
}

TEST(RedlockLoad, SaysWhereItCannotConnect) {
  PeerLoadOptions options;
  options.ports = {1, 1, 1, 1, 1};
  const Result<LoadResult> load = RunRedlockLoad(options);
  ASSERT_FALSE(load.ok());
  EXPECT_EQ(load.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(load.error().message.find("port 1"), std::string::npos) << load.error().message;
  options.ports.pop_back();
  EXPECT_EQ(RunRedlockLoad(options).error().field, "ports");
}

}  // namespace
}  // namespace holdfast::bench
