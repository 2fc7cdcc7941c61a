// A whole replicated cluster in one thread with virtual time, for tests: members, a fake etcd, and
// a network between them that is as nasty as a seed says. Everything that happens is an event in
// one queue, so a seed replays exactly.
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
#include <queue>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "check/history_checker.h"
#include "core/machine.h"
#include "engine/clock.h"
#include "engine/member.h"
#include "journal/fake_etcd.h"

namespace holdfast::engine {

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
  Duration delay_max = Millis(3);
};

class TestCluster {
 public:
  TestCluster(std::uint64_t seed, int nodes, const Nastiness& nastiness = {});
  ~TestCluster();

  void RunFor(Duration duration);
  // True if it holds within the time.
  bool RunUntil(const std::function<bool()>& condition, Duration at_most);

  Member& member(int node);
  bool IsUp(int node) const;
  // The node that leads, as far as it knows, in the newest epoch; -1: nobody.
  int Leader() const;
  // The process dies, with everything but its snapshots.
  void Kill(int node);
  void Start(int node);
  // The snapshots and the log id of a node that is down.
  journal::Snapshot& disk(int node);
  void LoseDisk(int node);
  void AdoptLog(int node, const Id128& log_id);
  // What is checked begins anew: the store holds another log now. The history is checked only if
  // it is there from its beginning.
  void BeginAnotherLog(bool from_its_beginning);
  // Nothing of it runs, its messages wait.
  void Pause(int node, Duration duration);
  // Nothing passes between the node and etcd.
  void CutOff(int node, Duration duration);
  void StopEtcd(Duration duration);
  // Its members have found that they differ: it refuses everything from now on.
  void DamageEtcd() { etcd_damaged_ = true; }
  void SetNastiness(const Nastiness& nastiness) { nastiness_ = nastiness; }

  // A request of a client, at whatever node leads; the tag tells the reply. False: nobody takes it.
  bool Propose(std::uint64_t tag, core::Command command);
  bool Ask(std::uint64_t tag, core::Query query);
  std::optional<Reply> TakeReply(std::uint64_t tag);

  BootTime now() const { return now_; }
  std::mt19937_64& random() { return random_; }
  journal::etcd::FakeEtcd& store() { return store_; }
  // The first rule that was broken, or empty.
  const std::string& violation() const { return violation_; }
  // Number of the last batch that any node applied.
  std::uint64_t applied() const { return traces_.empty() ? 0 : traces_.rbegin()->first; }
  MemberOptions options;          // of nodes that are started from now on
  std::uint64_t store_bytes = 0;  // how large etcd says that it is

 private:
  struct Node;
  struct Event {
    BootTime at{};
    std::uint64_t order = 0;
    std::function<void()> run;
    bool operator<(const Event& other) const {
      return at != other.at ? at > other.at : order > other.order;
    }
  };

  void At(BootTime at, std::function<void()> run);
  bool Step(BootTime until);
  bool Chance(int per_thousand);
  Duration Delay();
  void Send(Node& node, CallId id, const etcd::Txn& txn, Duration timeout);
  void WhenEtcdIsUp(BootTime at, const std::function<void()>& run);
  void Deliver(Node& node, std::function<void(Node&)> input);
  void Execute(const etcd::Txn& txn, const std::function<void(etcd::TxnResult)>& reply);
  void PushChanges(Node& node);
  void Turn(Node& node);
  void Applied(const core::Batch& batch, const core::Applied& applied,
               const core::Machine& machine);
  void Violated(const std::string& rule);

  std::mt19937_64 random_;
  Nastiness nastiness_;
  BootTime now_{Seconds(1000)};
  std::priority_queue<Event> events_;
  std::uint64_t order_ = 0;
  journal::etcd::FakeEtcd store_;
  BootTime etcd_down_until_{};
  bool etcd_damaged_ = false;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::map<std::uint64_t, Reply> replies_;

  std::optional<check::HistoryChecker> checker_{std::in_place};
  std::map<std::uint64_t, std::uint64_t> traces_;  // of each batch that anybody applied
  std::set<std::string> slots_;
  std::string violation_;
};

}  // namespace holdfast::engine
