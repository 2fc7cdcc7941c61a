// What `holdfast recover --etcd` does: begins a new log in etcd when the old one cannot go on,
// because every node has lost its disk, or etcd was restored or replaced. It leads for exactly one
// batch, which says that state was lost: tokens go on above the floor, and nothing is granted until
// old promises are over. Semantics: docs/REPLICATION.md.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/id.h"
#include "base/time.h"
#include "engine/clock.h"
#include "holdfast/result.h"
#include "journal/etcd_wire.h"
#include "storage/file_system.h"

namespace holdfast::engine {

struct ClusterRecoveryOptions {
  std::string prefix = "/holdfast";
  // A node's data directory, whose newest snapshot is the state to begin with; empty: the log in
  // etcd, if it is there from its beginning, else nothing.
  std::string directory;
  // At least the highest token that anybody may have seen; 0: the floor that is kept in etcd.
  std::uint64_t token_floor = 0;
  // How long nothing is granted: at least the longest ttl and lock-delay of the lost state; zero:
  // that of the state that is left.
  Duration block{};
};

struct ClusterRecoveryReport {
  Id128 log_id{};
  std::uint64_t epoch = 0;
  std::uint64_t state_index = 0;      // what is kept: the state after this entry; 0: nothing
  std::uint64_t entries_dropped = 0;  // that do not continue it
  std::uint64_t token_floor = 0;
  Duration block{};
};

// Does a transaction and waits for its answer, for some seconds at most.
using EtcdCall = std::function<journal::etcd::Answer(const journal::etcd::Txn&)>;
using Pause = std::function<void(Duration)>;

// No node may run: kBusy if one is seen to, in about three seconds. kInvalidArgument names an
// option that is needed because etcd cannot know it. May be run again if it did not finish.
Result<ClusterRecoveryReport> RecoverCluster(storage::FileSystem& files, Clock& clock,
                                             const EtcdCall& call, const Pause& pause,
                                             const ClusterRecoveryOptions& options);

}  // namespace holdfast::engine
