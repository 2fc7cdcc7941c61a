// The load on ZooKeeper against a real server.
#include <atomic>
#include <cstddef>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <signal.h>

#include "bench/local_server.h"
#include "bench/peer_load.h"
#include "bench/zookeeper_server.h"
#include "bench/zookeeper_wire.h"

namespace holdfast::bench {
namespace {

constexpr const char* kJar = "/usr/share/java/zookeeper.jar";
constexpr Duration kSession = Seconds(30);

class ZooKeeperLoadTest : public testing::Test {
 protected:
  void SetUp() override { Start(1); }

  void Start(int servers) {
    cluster_.reset();
    Result<ScratchDirectory> directory = ScratchDirectory::Create(testing::TempDir());
    ASSERT_TRUE(directory.ok());
    Result<ZooKeeperCluster> cluster = ZooKeeperCluster::Start(kJar, directory->path(), servers);
    directories_.push_back(std::move(*directory));
    ASSERT_TRUE(cluster.ok()) << cluster.error().message;
    cluster_.emplace(std::move(*cluster));
  }

  PeerLoadOptions Quick() const {
    PeerLoadOptions options;
    options.port = cluster_->leader_port;
    options.connections = 3;
    options.warm_up = Millis(50);
    options.duration = Millis(500);
    options.server_pid = cluster_->servers.front().pid();
    return options;
  }

  ZooKeeperSession Somebody() const {
    return ZooKeeperSession::Open(cluster_->leader_port, kSession).value();
  }

  // A number from what the server says about itself.
  int Count(const std::string& field) const {
    const std::string answer = ZooKeeperStatus(cluster_->leader_port);
    const std::size_t at = answer.find(field + ": ");
    EXPECT_NE(at, std::string::npos) << answer;
    return std::stoi(answer.substr(at + field.size() + 2));
  }

  std::vector<ScratchDirectory> directories_;
  std::optional<ZooKeeperCluster> cluster_;
};

TEST_F(ZooKeeperLoadTest, LocksAndUnlocksAndLeavesOnlyTheNodesOfTheLocks) {
  const int nodes = Count("Node count");
  const Result<LoadResult> load = RunZooKeeperLoad(Quick());
  ASSERT_TRUE(load.ok()) << load.error().message;
  EXPECT_GT(load->pairs, 0U);
  EXPECT_EQ(load->release.count, load->pairs);
  EXPECT_EQ(Total(load->errors) + Total(load->refusals), 0U);
  EXPECT_GT(load->pair.p50_ms, load->acquire.p50_ms);
  EXPECT_GT(load->server_cpu_percent, 0);
  EXPECT_EQ(Count("Node count"), nodes + 4);
  EXPECT_EQ(Count("Connections"), 1) << "a session was left behind";
}

TEST_F(ZooKeeperLoadTest, PipelinesOnOneSession) {
  PeerLoadOptions options = Quick();
  options.connections = 1;
  options.outstanding = 50;
  const Result<LoadResult> load = RunZooKeeperLoad(options);
  ASSERT_TRUE(load.ok()) << load.error().message;
  EXPECT_GT(load->pairs, 0U);
  EXPECT_EQ(Total(load->errors) + Total(load->refusals), 0U);
}

TEST_F(ZooKeeperLoadTest, CountsALockThatIsNotFree) {
  ZooKeeperSession somebody = Somebody();
  ASSERT_TRUE(somebody.EnsureNode("/holdfast-bench").ok());
  ASSERT_TRUE(somebody.EnsureNode("/holdfast-bench/0").ok());
  ASSERT_TRUE(somebody.EnsureNode("/holdfast-bench/0/somebody-lock-0000000000").ok());
  const int nodes = Count("Node count");
  const Result<LoadResult> load = RunZooKeeperLoad(Quick());
  ASSERT_TRUE(load.ok()) << load.error().message;
  EXPECT_GT(load->refusals.at("HELD"), 0U);
  EXPECT_GT(load->pairs, 0U) << "the other two sessions go on";
  EXPECT_EQ(Count("Node count"), nodes + 2) << "a child was left behind";
  EXPECT_TRUE(somebody.Delete("/holdfast-bench/0/somebody-lock-0000000000").ok());
}

TEST_F(ZooKeeperLoadTest, CountsErrorsByTheirNames) {
  ASSERT_TRUE(Somebody().EnsureNode("/holdfast-bench").ok());
  PeerLoadOptions options = Quick();
  options.duration = Seconds(2);
  // Takes away the node of a lock, whenever it has no child.
  std::atomic<bool> stop{false};
  std::thread spoiler([&] {
    ZooKeeperSession somebody = Somebody();
    while (!stop) {
      static_cast<void>(somebody.Delete("/holdfast-bench/1"));
    }
  });
  const Result<LoadResult> load = RunZooKeeperLoad(options);
  stop = true;
  spoiler.join();
  ASSERT_TRUE(load.ok()) << load.error().message;
  EXPECT_GT(load->errors.at("NO_NODE"), 0U);
  EXPECT_GT(load->pairs, 0U);
}

TEST_F(ZooKeeperLoadTest, EndsWithAServerThatDies) {
  PeerLoadOptions options = Quick();
  options.duration = Seconds(60);
  const int nodes = Count("Node count");
  std::thread killer([this, nodes] {
    const LoadTime deadline = LoadClock::now() + Seconds(20);
    while (Count("Node count") < nodes + 4 && LoadClock::now() < deadline) {
      std::this_thread::yield();
    }
    kill(cluster_->servers.front().pid(), SIGKILL);
  });
  const Result<LoadResult> load = RunZooKeeperLoad(options);
  killer.join();
  ASSERT_FALSE(load.ok());
  EXPECT_EQ(load.error().code, ErrorCode::kUnavailable);
}

TEST_F(ZooKeeperLoadTest, ThreeServersHaveOneLeader) {
  Start(kZooKeeperServers);
  EXPECT_EQ(cluster_->servers.size(), 3U);
  EXPECT_EQ(ZooKeeperMode(cluster_->leader_port), "leader");
  const Result<LoadResult> load = RunZooKeeperLoad(Quick());
  ASSERT_TRUE(load.ok()) << load.error().message;
  EXPECT_GT(load->pairs, 0U);
}

TEST(ZooKeeperCluster, SaysWhyAServerDidNotStart) {
  const Result<ScratchDirectory> directory = ScratchDirectory::Create(testing::TempDir());
  ASSERT_TRUE(directory.ok());
  const Result<ZooKeeperCluster> cluster =
      ZooKeeperCluster::Start("/nonexistent/zookeeper.jar", directory->path(), 1);
  ASSERT_FALSE(cluster.ok());
  EXPECT_EQ(cluster.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(cluster.error().message.find("QuorumPeerMain"), std::string::npos)
      << cluster.error().message;
}

TEST(ZooKeeperLoad, SaysWhereItCannotConnect) {
  PeerLoadOptions options;
  options.port = 1;
  const Result<LoadResult> load = RunZooKeeperLoad(options);
  ASSERT_FALSE(load.ok());
  EXPECT_EQ(load.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(ZooKeeperMode(1), "");
}

}  // namespace
}  // namespace holdfast::bench
