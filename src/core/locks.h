// Locks and elections: leases on resources, fair queues of waiters, tokens. Not thread-safe; driven
// by Machine.
//
// Each verb's precondition, effect and outcomes: docs/SEMANTICS.md. The files: locks.cc begins and
// ends leases and hands over; locks_acquire.cc takes requests in and out of the queue;
// locks_commands.cc has the verbs of holders and administrators; locks_view.cc answers queries;
// locks_snapshot.cc saves, loads and checks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/flat_hash_map.h"
#include "core/context.h"
#include "core/history.h"
#include "core/namespaces.h"
#include "core/requests.h"
#include "core/resource.h"
#include "core/sessions.h"
#include "core/slot_index.h"
#include "core/view.h"

namespace holdfast::core {

class Locks {
 public:
  Locks(Namespaces& namespaces, Sessions& sessions, Requests& requests)
      : namespaces_(namespaces), sessions_(sessions), requests_(requests) {}

  // Commands. `id` is the namespace of the command, which exists.
  Outcome Acquire(Context& context, NamespaceId id, const std::string& principal,
                  const core::Acquire& command);
  // In the renewal phase: valid if the deadline had not passed at the previous batch.
  Outcome Renew(Context& context, NamespaceId id, const core::Renew& command);
  Released Release(Context& context, NamespaceId id, const core::Release& command);
  Cancelled Cancel(Context& context, NamespaceId id, const std::string& principal,
                   const core::Cancel& command);
  Broken Break(Context& context, NamespaceId id, const core::Break& command);
  Proclaimed Proclaim(Context& context, NamespaceId id, const core::Proclaim& command);
  void Detach(Context& context, const core::Detach& command);
  // A new epoch has no connections: every waiter is detached.
  void DetachAll(Context& context);
  // Tokens go on above `floor`; nothing is granted before `until`.
  void Recover(Context& context, Token floor, Timestamp until);

  // Timers of kinds kLease, kWait, kDetach and kDelay.
  void OnTimer(Context& context, const Timer& timer);
  // Ends what hangs on sessions that are over, within the context's budget.
  void DrainSessions(Context& context);

  // Queries; `as_of` is the present for durations.
  ResourceView Describe(const EpochFloors& floors, NamespaceId id, const std::string& name,
                        Timestamp as_of) const;
  ListView List(const EpochFloors& floors, NamespaceId id, const core::List& query,
                Timestamp as_of) const;
  TokenView CheckToken(const EpochFloors& floors, NamespaceId id, const core::CheckToken& query,
                       Timestamp as_of) const;
  LeaderView Leader(const EpochFloors& floors, NamespaceId id, const std::string& name,
                    Timestamp as_of) const;
  // How long the renewal of this lease can wait; zero if it is not the current lease.
  Duration TimeLeft(const EpochFloors& floors, NamespaceId id, std::string_view name,
                    const Id128& lease_id, Timestamp as_of) const;

  // Of all leases, which may be more than their policy would give today.
  Duration LongestTtl() const;

  Token last_token() const { return last_token_; }
  bool GrantsBlocked(Timestamp now) const { return !(blocked_until_ < now); }
  Timestamp blocked_until() const { return blocked_until_; }
  std::size_t resources() const { return resources_.size(); }
  std::size_t holds() const { return holds_; }
  std::size_t waiters() const { return waiters_.size(); }

  void Save(Saver& saver) const;
  void Load(ArchiveReader& reader, Timers& timers);
  // Recounts everything (I1, I2, I9 as far as one state shows them); the first thing that is wrong,
  // or empty.
  std::string FindInconsistency(const Timers& timers, const EpochFloors& floors) const;

 private:
  using ResourceKey = std::pair<NamespaceId, std::string>;
  using ResourceKeyView = std::pair<NamespaceId, std::string_view>;
  struct LessKey {
    using is_transparent = void;
    bool operator()(const ResourceKeyView& a, const ResourceKeyView& b) const { return a < b; }
  };

  // What a lease is begun from: an acquire that is granted at once, or a waiter.
  struct Claim {
    Id128 lease_id{};
    Slot tenant = kNoSlot;
    Slot session = kNoSlot;
    Duration ttl{};
    const std::string* owner = nullptr;
    const std::vector<MetadataEntry>* metadata = nullptr;
    const std::string* value = nullptr;
  };
  struct LeaseEnd {
    Timestamp at{};
    Cause cause = Cause::kNone;
  };

  Slot Find(NamespaceId id, std::string_view name) const;
  Slot FindOrAdd(NamespaceId id, const std::string& name);
  void ForgetIfIdle(Slot slot);
  const Policy& PolicyOf(const Resource& resource) const {
    return namespaces_.At(resource.name_space).policy;
  }

  // locks.cc
  LeaseEnd EndOf(const EpochFloors& floors, const Resource& resource) const;
  bool IsOver(const EpochFloors& floors, const Resource& resource, Timestamp at) const {
    return resource.held && (EndOf(floors, resource).at < at || OnEndedSession(resource.lease));
  }
  // Until when the lock-delay after this end lasts; nothing if there is none, or if it is over at
  // `at`.
  std::optional<Timestamp> DelayAfter(const Resource& resource, const LeaseEnd& end,
                                      Timestamp at) const;
  // Whether its end is not simply that of its session.
  static bool HasOwnEnd(const Lease& lease) {
    return lease.session == kNoSlot || lease.frozen || lease.provisional;
  }
  static Timestamp OwnEnd(const EpochFloors& floors, const Lease& lease) {
    return floors.Effective(lease.deadline, lease.renewed_at, lease.promise);
  }
  // Marked as over, not drained yet.
  bool OnEndedSession(const Lease& lease) const {
    return lease.session != kNoSlot && sessions_.At(lease.session).ended != Cause::kNone;
  }
  // Brings one resource up to now, whether its timers were processed or not. Gives its slot,
  // kNoSlot if it was idle then and is forgotten.
  Slot Settle(Context& context, Slot slot);
  Granted Begin(Context& context, Slot slot, const Claim& claim, Cause cause);
  void End(Context& context, Slot slot, const LeaseEnd& end);
  void EndAndHandOver(Context& context, Slot slot, const LeaseEnd& end, bool delay);
  void HandOver(Context& context, Slot slot);
  void ClearDelay(Context& context, Slot slot);
  void SetLeaseTimer(Context& context, Slot slot, Timestamp at);
  void CancelLeaseTimer(Context& context, Slot slot);
  void OnLeaseTimer(Context& context, Slot slot);
  void Freeze(Context& context, Slot slot);
  void Note(Context& context, Slot slot, Cause cause, const std::string& reason);
  void Emit(Context& context, const Resource& resource, EventKind kind, Cause cause, Slot tenant,
            const std::string& owner);
  Granted Describe(const Context& context, const Resource& resource) const;
  bool BelowHoldLimit(Slot tenant) const;

  // locks_acquire.cc
  Outcome Decide(Context& context, NamespaceId id, const core::Acquire& command, Slot tenant,
                 Slot record);
  Outcome Repeat(Context& context, NamespaceId id, const core::Acquire& command, Slot record);
  Outcome Reattach(Context& context, Slot waiter);
  Outcome RefuseOrQueue(Context& context, const core::Acquire& command, Slot resource, Slot tenant,
                        Slot session, Slot record);
  Outcome Enqueue(Context& context, const core::Acquire& command, Slot resource, Slot tenant,
                  Slot session, Slot record);
  // Remembers the refusal under `record`, unless that is kNoSlot.
  Refused Refuse(Context& context, RefusalCode code, Slot resource, Slot record);
  bool IsWaiting(Slot resource, Slot session) const;
  // Takes a waiter out of its queue with this answer. The caller forgets the resource if it is idle
  // then; Leave does.
  void RemoveWaiter(Context& context, Slot waiter, RefusalCode refusal, Cause cause);
  void Leave(Context& context, Slot waiter, RefusalCode refusal, Cause cause);
  // Removes a waiter whose time is over, whether its timers were processed or not; true if it did.
  bool RemoveIfOver(Context& context, Slot waiter);
  void UnlinkWaiter(Context& context, Slot waiter);
  void DetachWaiter(Context& context, Slot waiter);

  // locks_commands.cc
  Cause HowItEnded(const Resource& resource, const Id128& lease_id) const;
  NotRenewed NotCurrent(NamespaceId id, std::string_view name, const Id128& lease_id) const;
  std::string NextOwner(const Resource& resource) const;

  // locks_view.cc
  HolderView ViewHolder(const EpochFloors& floors, const Resource& resource, Timestamp as_of) const;
  ResourceView ViewShort(const EpochFloors& floors, const Resource& resource,
                         Timestamp as_of) const;

  // locks_snapshot.cc
  using Ordinals =
      absl::flat_hash_map<Slot, std::uint64_t>;  // a resource's place in the order of names
  void SaveResource(Saver& saver, const Resource& resource) const;
  void SaveWaiters(Saver& saver, const Resource& resource) const;
  void SaveHistory(Saver& saver, const Ordinals& ordinals) const;
  void SaveSessionLists(Saver& saver, const Ordinals& ordinals) const;
  Slot LoadResource(ArchiveReader& reader, Timers& timers);
  void LoadLease(ArchiveReader& reader, Timers& timers, Slot slot);
  void LoadWaiters(ArchiveReader& reader, Timers& timers, Slot slot);
  void LoadHistory(ArchiveReader& reader, const std::vector<Slot>& slots);
  void LoadSessionLists(ArchiveReader& reader, const std::vector<Slot>& slots);
  std::string FindInconsistency(Slot slot, const Timers& timers, const EpochFloors& floors) const;

  Namespaces& namespaces_;
  Sessions& sessions_;
  Requests& requests_;
  Slab<Resource> resources_;
  SlotIndex<Resource> index_{resources_};                // look-up
  absl::btree_map<ResourceKey, Slot, LessKey> ordered_;  // lists and snapshots
  Slab<Waiter> waiters_;
  absl::btree_map<WaiterId, Slot> waiter_by_id_;
  History history_;
  Token last_token_ = 0;
  WaiterId last_waiter_ = 0;
  std::size_t holds_ = 0;
  Timestamp blocked_until_ = Timestamp::min();
};

}  // namespace holdfast::core
