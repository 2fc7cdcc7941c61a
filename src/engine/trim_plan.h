// How far the log may be trimmed: a pure decision over what the nodes say of themselves.
//
// An entry may go when a snapshot that contains it is synced on nodes in two zones (in one, where
// only one is configured), and when no live standby still needs it; a log that is too large does
// not wait for slow standbys, which get a snapshot then. Nothing overrides the number of zones.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/time.h"
#include "journal/etcd_layout.h"

namespace holdfast::engine {

struct PeerState {
  std::string name;
  journal::etcd::NodeRecord record;
  BootTime seen_at{};  // when its record last changed
  bool alive = false;
};

struct TrimPlan {
  std::uint64_t first_index = 0;  // entries below it go
  // Snapshots that the plan relies on: the log must confirm their hashes first.
  struct Holder {
    std::string node;
    std::uint64_t index = 0;
    Id128 hash{};
  };
  std::vector<Holder> holders;
};

// `last_index` is of the log's newest entry, which always stays. `without`: a node whose snapshots
// do not count.
std::optional<TrimPlan> PlanTrim(const std::vector<PeerState>& nodes, std::uint64_t first_index,
                                 std::uint64_t last_index, bool too_large,
                                 const std::string& without = {});

}  // namespace holdfast::engine
