// One node of a simulated cluster: its process (member and router), its disk and its clocks.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/clock.h"
#include "engine/member.h"
#include "engine/node_directory.h"
#include "engine/ports.h"
#include "engine/router.h"
#include "sim/clocks.h"
#include "sim/cluster.h"
#include "storage/simulated_file_system.h"

namespace holdfast::sim {

// Fronts of a node. Those of peers come after them.
inline constexpr engine::FrontId kTestFront = 1;
inline constexpr engine::FrontId kClientFront = 2;
inline constexpr engine::FrontId kPeerFronts = 100;

inline constexpr const char* kDataDirectory = "data";

class Node : public engine::MemberHost, public engine::Clock, public engine::PeerPort {
 public:
  Node(Cluster& cluster_in, int number_in) : cluster(cluster_in), number(number_in) {}

  std::string Address() const { return "node" + std::to_string(number); }
  bool up() const { return member != nullptr; }
  void StartProcess(const engine::MemberOptions& options);
  void EndProcess();

  // Everything that is due, and what comes out of it.
  void Turn();

  // A frame of the peer that has opened this link.
  void OnForwarded(int from, std::uint64_t link, const std::string& frame);
  void OnLinkGone(int from, std::uint64_t link);

  // Clock
  BootTime Boot() override { return clocks.Boot(cluster.now()); }
  WallTime Wall() override { return clocks.Wall(cluster.now()); }
  Id128 NewId() override { return cluster.dice_.Draw(); }

  // MemberHost
  void Send(engine::CallId id, const etcd::Txn& txn, Duration timeout) override;
  void Watch(engine::EtcdWatchId id, etcd::Revision revision) override;
  void StopWatch() override { watch = 0; }
  void OnApplied(const core::Batch& batch, const core::Applied& applied,
                 std::vector<core::Event>& events) override;
  void OnRole(engine::Role role) override;
  void SaveSnapshot(const journal::SnapshotHeader& header, const core::Machine& machine) override;
  void CheckStore() override;
  void FetchSnapshot(std::uint64_t index, const std::vector<std::string>& addresses) override;

  // PeerPort
  void Connect(std::uint64_t link, const std::string& address) override;
  void Send(std::uint64_t link, std::string frame) override;
  void Close() override;
  Result<journal::Snapshot> FetchSnapshot(const std::string& address, std::uint64_t index) override;

  Cluster& cluster;
  const int number;
  Clocks clocks;
  int life = 0;  // messages to an earlier one are lost
  BootTime paused_until{};
  BootTime cut_off_until{};
  BootTime peers_cut_until{};
  BootTime turn_at{};

  std::unique_ptr<storage::SimulatedFileSystem> files =
      std::make_unique<storage::SimulatedFileSystem>();
  std::unique_ptr<engine::NodeDirectory> directory;
  std::unique_ptr<engine::Member> member;
  std::optional<engine::Router> router;
  engine::EngineOutput output;
  engine::EtcdWatchId watch = 0;
  etcd::Revision watch_from = 0;

  // What clients asked here.
  std::map<std::uint64_t, OnReply> open;

 private:
  struct Link {  // of this node to the leader
    std::uint64_t id = 0;
    int to = -1;
    int to_life = 0;
    BootTime clear_at{};  // frames keep their order
  };
  struct PeerFront {
    int from = -1;
    std::uint64_t link = 0;
    BootTime clear_at{};
  };

  void BreakLink(Duration after);
  void SendReplies();

  std::optional<Link> link_;
  std::map<engine::FrontId, PeerFront> peer_fronts_;
  engine::FrontId next_front_ = kPeerFronts;
  engine::Role role_ = engine::Role::kJoining;
};

}  // namespace holdfast::sim
