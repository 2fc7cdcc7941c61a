// The data of locks: what hangs on one resource. Plain structs; locks.h keeps them consistent.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/btree_set.h"
#include "base/id.h"
#include "core/namespaces.h"
#include "core/outcome.h"
#include "core/slab.h"

namespace holdfast::core {

struct Lease {
  Id128 id{};
  Token token = 0;
  std::string owner;
  std::vector<MetadataEntry> metadata;
  Slot tenant = kNoSlot;
  Slot session = kNoSlot;  // its deadline is the session's, unless frozen
  Duration ttl{};
  Duration promise{};  // length of the current promise: the ttl, or less while provisional
  Timestamp granted_at{};
  Timestamp renewed_at{};
  Timestamp deadline{};  // of its own promise; on a session only while provisional or frozen
  Timestamp timer_at{};  // of its timer, which may be earlier than the deadline
  bool has_timer = false;
  bool provisional = false;
  bool revoking = false;
  bool frozen = false;  // on a session, but the session's keepalives do not extend it any more
  WallTime since{};
  std::string reason;  // revoking: the administrator's words
};

struct Waiter {
  WaiterId id = 0;
  Slot resource = kNoSlot;
  Slot tenant = kNoSlot;
  Slot session = kNoSlot;
  Slot record = kNoSlot;  // its remembered request
  std::string owner;
  std::vector<MetadataEntry> metadata;
  std::string value;  // of a campaign
  Duration ttl{};
  Id128 lease_id{};  // what its lease will be called
  Timestamp queued_at{};
  Timestamp deadline{};  // of its patience
  std::uint64_t attachment = 1;
  bool attached = true;
  Timestamp detach_at{};  // detached: when it is removed
  SlotLink in_queue;
  SlotLink on_session;
};

struct WaitQueue {
  SlotList all;  // in log order
  absl::btree_set<std::pair<WaiterId, Slot>>
      attached;  // who can be granted, first in log order first
};

struct alignas(64) Resource {  // of a cache line, since each look-up fetches it from memory
  std::string name;
  std::uint64_t hash = 0;  // of namespace and name, for the index
  NamespaceId name_space = 0;
  bool held = false;
  Lease lease;
  std::string value;  // of an election
  bool delayed = false;
  Timestamp delay_until{};
  Token last_token = 0;
  std::unique_ptr<WaitQueue> queue;   // only while somebody waits
  std::uint64_t last_transition = 0;  // position in History; 0: none
  std::uint32_t transitions = 0;      // how many History still holds
  SlotLink on_session;
};

template <typename A>
void Archive(A& a, MetadataEntry& entry) {
  a(entry.key, entry.value);
}

}  // namespace holdfast::core
