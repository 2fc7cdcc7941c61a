// A whole replicated cluster in one thread with virtual time: the nodes' own engine, member and
// router, a fake etcd, disks, clocks, and a network between them that is as nasty as a seed says.
//
// While it runs it checks: no slot is written twice (one writer), every node applies the same
// batches (prefix agreement and I10), and the history of the log keeps the invariants
// (check/history_checker.h).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "core/machine.h"
#include "engine/member.h"
#include "journal/fake_etcd.h"
#include "sim/site.h"
#include "storage/simulated_file_system.h"

namespace holdfast::sim {

namespace etcd = journal::etcd;

core::Command AcquireOf(std::string resource, std::string id, Duration ttl = Seconds(10));

// Shares are per thousand messages.
struct Nastiness {
  int lost_requests = 0;  // never arrive; the caller hears of it when its time is over
  int lost_replies = 0;   // done, but the caller hears nothing but the end of its time
  int late_requests = 0;  // done after the caller's time is over
  int no_space = 0;       // done, and answered with the error that looks like nothing was done
  int watch_loses = 0;    // changes that a watch leaves out
  int watch_repeats = 0;
  int watch_ends = 0;
  int broken_links = 0;  // between nodes, for each frame
  int failed_syncs = 0;  // of a snapshot
  Duration delay_max = Millis(3);
};

class Node;

class Cluster : public Site {
 public:
  Cluster(std::uint64_t seed, int nodes, const Nastiness& nastiness = {});
  ~Cluster() override;

  engine::Member& member(int node);
  int size() const override { return static_cast<int>(nodes_.size()); }
  bool IsUp(int node) const override;
  bool IsPaused(int node) const override;
  int LifeOf(int node) const override;
  bool Serves() const override { return Leader() >= 0; }
  std::string WhyBehind(int node) override;
  // The node that leads, as far as it knows, in the newest epoch; -1: nobody.
  int Leader() const;

  void Kill(int node) override;
  void CutPower(int node) override;
  void Start(int node) override;
  // Of a node that is down.
  storage::SimulatedFileSystem& disk(int node);
  void LoseDisk(int node);
  // What is checked begins anew: the store holds another log now. The history is checked only if
  // it is there from its beginning.
  void BeginAnotherLog(bool from_its_beginning);
  void Pause(int node, Duration duration) override;
  // Nothing passes between the node and etcd.
  void CutOff(int node, Duration duration);
  // Nothing passes between the node and its peers.
  void CutPeers(int node, Duration duration);
  void StopEtcd(Duration duration);
  // Its members have found that they differ: it refuses everything from now on.
  void DamageEtcd() { etcd_damaged_ = true; }
  void SetClock(int node, const ClockFault& fault) override;
  void SetNastiness(const Nastiness& nastiness) { nastiness_ = nastiness; }

  // A request of a client, at whatever node leads; the tag tells the reply. False: nobody takes it.
  bool Propose(std::uint64_t tag, core::Command command);
  bool Ask(std::uint64_t tag, core::Query query);
  std::optional<engine::Reply> TakeReply(std::uint64_t tag);

  std::uint64_t Serve(int node, EngineRequest request, OnReply reply) override;
  void Abandon(int node, std::uint64_t number) override;

  journal::etcd::FakeEtcd& store() { return store_; }
  // Number of the last batch that any node applied.
  std::uint64_t applied() const { return traces_.empty() ? 0 : traces_.rbegin()->first; }
  // Changes that watches leave out, for a test of one of them.
  std::function<bool(const etcd::Change&)> loses;
  engine::MemberOptions options;  // of nodes that are started from now on
  std::uint64_t store_bytes = 0;  // how large etcd says that it is

 private:
  friend class Node;

  Node& At(int node) const { return *nodes_[static_cast<std::size_t>(node)]; }
  Duration Delay() { return dice_.UpTo(nastiness_.delay_max); }
  void Send(Node& node, engine::CallId id, const etcd::Txn& txn, Duration timeout);
  void WhenEtcdIsUp(BootTime at, const std::function<void()>& run);
  void Deliver(Node& node, std::function<void(Node&)> input);
  void Execute(const etcd::Txn& txn, const std::function<void(etcd::TxnResult)>& reply);
  void PushChanges(Node& node);
  void Turn(Node& node);
  bool ProposeAny(std::uint64_t tag, EngineRequest request);
  void Applied(const core::Batch& batch, const core::Applied& applied,
               const core::Machine& machine);

  Nastiness nastiness_;
  journal::etcd::FakeEtcd store_;
  BootTime etcd_down_until_{};
  bool etcd_damaged_ = false;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::map<std::uint64_t, engine::Reply> replies_;
  std::uint64_t served_ = 0;

  std::map<std::uint64_t, std::uint64_t> traces_;  // of each batch that anybody applied
  std::set<std::string> slots_;
};

}  // namespace holdfast::sim
