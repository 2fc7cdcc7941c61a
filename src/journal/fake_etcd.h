// An etcd in memory, for tests and the simulator: transactions, revisions, and the history that
// watches are served from. It does what it is told at once and keeps every promise of the real one;
// what goes wrong on the way to it and back is its owner's to play (tests/cluster/test_cluster.h).
// The same contract test runs against this and against a real etcd. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "journal/etcd_wire.h"

namespace holdfast::journal::etcd {

class FakeEtcd {
 public:
  explicit FakeEtcd(std::uint64_t cluster_id = 1) : cluster_id_(cluster_id) {}

  TxnResult Run(const Txn& txn);
  // Everything that changed below `prefix` at `from` or later, in order. False if that history was
  // compacted away.
  bool ChangesSince(Revision from, const std::string& prefix, WatchChanges& out) const;
  // Watches cannot begin below `revision` any more; keys stay.
  void Compact(Revision revision);
  void SetClusterId(std::uint64_t id) { cluster_id_ = id; }

  Revision revision() const { return revision_; }
  const std::map<std::string, KeyValue>& pairs() const { return pairs_; }

 private:
  struct Version {
    Revision revision = 0;
    Change change;
  };

  bool Holds(const Guard& guard) const;
  void Do(const Operation& operation, bool& wrote, std::vector<KeyValue>& found);

  std::uint64_t cluster_id_;
  Revision revision_ = 1;
  Revision compacted_ = 0;
  std::map<std::string, KeyValue> pairs_;
  std::vector<Version> history_;
};

}  // namespace holdfast::journal::etcd
