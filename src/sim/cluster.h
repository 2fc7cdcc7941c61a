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

#include "check/history_checker.h"
#include "core/machine.h"
#include "engine/member.h"
#include "journal/fake_etcd.h"
#include "sim/dice.h"
#include "sim/scheduler.h"
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

// How a node's clocks differ from the true time.
struct ClockFault {
  std::int64_t rate_ppm = 0;  // parts per million too fast
  Duration wall_step{};
};

class Node;

class Cluster {
 public:
  Cluster(std::uint64_t seed, int nodes, const Nastiness& nastiness = {});
  ~Cluster();
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;

  void RunFor(Duration duration) { scheduler_.RunFor(duration); }
  bool RunUntil(const std::function<bool()>& condition, Duration at_most) {
    return scheduler_.RunUntil(condition, at_most);
  }

  engine::Member& member(int node);
  int size() const { return static_cast<int>(nodes_.size()); }
  bool IsUp(int node) const;
  // The node that leads, as far as it knows, in the newest epoch; -1: nobody.
  int Leader() const;

  // The process dies, with everything that is not on its disk.
  void Kill(int node);
  // So does the machine: what was not synced has an uncertain fate.
  void CutPower(int node);
  void Start(int node);
  // Of a node that is down.
  storage::SimulatedFileSystem& disk(int node);
  void LoseDisk(int node);
  // What is checked begins anew: the store holds another log now. The history is checked only if
  // it is there from its beginning.
  void BeginAnotherLog(bool from_its_beginning);
  // Nothing of it runs, its messages wait.
  void Pause(int node, Duration duration);
  bool IsPaused(int node) const;
  // Nothing passes between the node and etcd.
  void CutOff(int node, Duration duration);
  // Nothing passes between the node and its peers.
  void CutPeers(int node, Duration duration);
  void StopEtcd(Duration duration);
  // Its members have found that they differ: it refuses everything from now on.
  void DamageEtcd() { etcd_damaged_ = true; }
  void SetClock(int node, const ClockFault& fault);
  void SetNastiness(const Nastiness& nastiness) { nastiness_ = nastiness; }

  // A request of a client, at whatever node leads; the tag tells the reply. False: nobody takes it.
  bool Propose(std::uint64_t tag, core::Command command);
  bool Ask(std::uint64_t tag, core::Query query);
  std::optional<engine::Reply> TakeReply(std::uint64_t tag);

  // A request that has arrived at a node, as a front hands it over. `reply` runs at most once:
  // never if the node dies before. The number is for Abandon.
  using EngineRequest = std::variant<core::Command, core::Query>;
  using OnReply = std::function<void(engine::Reply&&)>;
  std::uint64_t Serve(int node, EngineRequest request, OnReply reply);
  void Abandon(int node, std::uint64_t number);
  // Changes with each start of the node: what was asked of an earlier one is not answered any more.
  int LifeOf(int node) const;

  BootTime now() const { return scheduler_.now(); }
  Scheduler& scheduler() { return scheduler_; }
  Dice& random() { return dice_; }
  journal::etcd::FakeEtcd& store() { return store_; }
  // The first rule that was broken, or empty.
  const std::string& violation() const { return violation_; }
  void Violated(const std::string& rule);
  // Number of the last batch that any node applied.
  std::uint64_t applied() const { return traces_.empty() ? 0 : traces_.rbegin()->first; }
  // How often what happened; see sim/run.h.
  std::map<std::string, std::uint64_t>& counts() { return counts_; }
  void Count(const std::string& what) { ++counts_[what]; }

  // Runs when a batch is applied for the first time, by whichever node.
  std::function<void(const core::Batch&, const core::Applied&)> on_applied;
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

  Scheduler scheduler_;
  Dice dice_;
  Nastiness nastiness_;
  journal::etcd::FakeEtcd store_;
  BootTime etcd_down_until_{};
  bool etcd_damaged_ = false;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::map<std::uint64_t, engine::Reply> replies_;
  std::uint64_t served_ = 0;

  std::optional<check::HistoryChecker> checker_{std::in_place};
  std::map<std::uint64_t, std::uint64_t> traces_;  // of each batch that anybody applied
  std::set<std::string> slots_;
  std::string violation_;
  std::map<std::string, std::uint64_t> counts_;
};

}  // namespace holdfast::sim
