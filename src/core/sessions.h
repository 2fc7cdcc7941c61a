// Sessions: one lease for many holds. A session that is over is marked in O(1); what hangs on it is
// ended piece by piece by Locks::DrainSessions, and is treated as over from the moment of the mark.
#pragma once

#include <cstdint>
#include <deque>
#include <string>

#include "absl/container/btree_map.h"
#include "absl/container/flat_hash_map.h"
#include "base/id.h"
#include "core/context.h"
#include "core/namespaces.h"
#include "core/requests.h"

namespace holdfast::core {

struct Session {
  Id128 id{};
  std::uint64_t number = 0;  // of the log, rising
  Slot tenant = kNoSlot;
  std::string owner;
  Duration ttl{};
  Timestamp renewed_at{};
  Timestamp deadline{};
  Timestamp timer_at{};        // of its timer, which may be earlier than the deadline
  Cause ended = Cause::kNone;  // kNone: alive, unless its deadline has passed
  Timestamp ended_at{};
  // Holds that were frozen, or ended otherwise than by a release or with the session.
  std::uint64_t revocations = 0;
  SlotList holds;  // Resource::on_session
  SlotList waits;  // Waiter::on_session
};

class Sessions {
 public:
  Sessions(Namespaces& namespaces, Requests& requests)
      : namespaces_(namespaces), requests_(requests) {}

  Outcome Open(Context& context, NamespaceId id, const std::string& principal,
               const OpenSession& command, bool blocked);
  // In the renewal phase: valid if the deadline had not passed at the previous batch.
  SessionKept KeepAlive(Context& context, NamespaceId id, const Command& command);
  SessionClosed Close(Context& context, NamespaceId id, const CloseSession& command);
  SessionView View(const EpochFloors& floors, NamespaceId id, const Id128& session_id,
                   Timestamp as_of) const;

  // kNoSlot if there is none of that id in the namespace (or it ended too long ago).
  Slot Find(NamespaceId id, const Id128& session_id) const;
  Session& At(Slot slot) { return sessions_[slot]; }
  const Session& At(Slot slot) const { return sessions_[slot]; }
  static Timestamp End(const EpochFloors& floors, const Session& session) {
    return session.ended != Cause::kNone
               ? session.ended_at
               : floors.Effective(session.deadline, session.renewed_at, session.ttl);
  }
  static bool IsOver(const EpochFloors& floors, const Session& session, Timestamp at) {
    return session.ended != Cause::kNone || End(floors, session) < at;
  }
  static Cause EndCause(const Session& session) {
    return session.ended != Cause::kNone ? session.ended : Cause::kSessionExpired;
  }

  void OnTimer(Context& context, Slot slot);
  // The oldest session that is over and still has holds or waits; kNoSlot if there is none.
  Slot FirstToDrain();
  bool HasToDrain() const { return !draining_.empty(); }

  std::size_t size() const { return live_; }
  // Of all live sessions, which may be more than their policy would give today.
  Duration LongestTtl() const;

  // Session numbers are how other sections refer to sessions.
  Slot ByNumber(std::uint64_t number) const;
  const absl::btree_map<std::uint64_t, Slot>& by_number() const { return by_number_; }
  void Save(Saver& saver) const;
  void Load(ArchiveReader& reader, Timers& timers);
  std::string FindInconsistency(const Timers& timers, const EpochFloors& floors) const;

 private:
  SessionOpened Begin(Context& context, NamespaceId id, Slot tenant, const OpenSession& command);
  void Finish(Context& context, Slot slot, Cause cause, Timestamp at);
  void Bury(Slot slot);
  Outcome Repeat(const Context& context, const Record& record, std::uint64_t fingerprint) const;

  Namespaces& namespaces_;
  Requests& requests_;
  Slab<Session> sessions_;
  absl::flat_hash_map<Id128, Slot> by_id_;
  absl::btree_map<std::uint64_t, Slot> by_number_;
  std::uint64_t last_number_ = 0;
  std::size_t live_ = 0;
  std::deque<Slot> draining_;  // over, not yet drained
  std::deque<Slot> ended_;     // over and drained, kept to say how they ended
};

}  // namespace holdfast::core
