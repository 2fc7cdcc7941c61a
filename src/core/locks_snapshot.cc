// The snapshot section of Locks, and its self-check.
//
// Resources stand in order of (namespace, name), each with its lease and its waiters; then the ring
// of transitions, oldest first; then, for each session, the order of its holds and waits, since
// sessions are drained in that order.
#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"
#include "core/limits.h"
#include "core/locks.h"

namespace holdfast::core {
namespace {

// Whether the slot with this link is in the list already: only damaged bytes name it twice.
bool IsLinked(const SlotList& list, const SlotLink& link, Slot slot) {
  return link.previous != kNoSlot || list.first == slot;
}

}  // namespace

void Locks::Save(Saver& saver) const {
  saver(last_token_, last_waiter_, blocked_until_, static_cast<std::uint64_t>(ordered_.size()));
  Ordinals ordinals;
  for (const auto& [key, slot] : ordered_) {
    ordinals.emplace(slot, ordinals.size());
    SaveResource(saver, resources_[slot]);
  }
  SaveHistory(saver, ordinals);
  SaveSessionLists(saver, ordinals);
}

void Locks::SaveResource(Saver& saver, const Resource& resource) const {
  saver(resource.name_space, resource.name, resource.held, resource.delayed, resource.delay_until,
        resource.last_token, resource.last_transition, resource.transitions);
  if (resource.held) {
    const Lease& lease = resource.lease;
    const std::uint64_t session = lease.session == kNoSlot ? 0 : sessions_.At(lease.session).number;
    saver(lease.id, lease.token, lease.owner, lease.metadata,
          namespaces_.TenantAt(lease.tenant).principal, session, lease.ttl, lease.promise,
          lease.granted_at, lease.renewed_at, lease.deadline, lease.timer_at, lease.has_timer,
          lease.provisional, lease.revoking, lease.frozen, lease.since, lease.reason,
          resource.value);
  }
  SaveWaiters(saver, resource);
}

void Locks::SaveWaiters(Saver& saver, const Resource& resource) const {
  saver(static_cast<std::uint64_t>(resource.queue == nullptr ? 0 : resource.queue->all.size));
  if (resource.queue == nullptr) {
    return;
  }
  for (Slot slot = resource.queue->all.first; slot != kNoSlot;
       slot = waiters_[slot].in_queue.next) {
    const Waiter& waiter = waiters_[slot];
    const std::uint64_t session =
        waiter.session == kNoSlot ? 0 : sessions_.At(waiter.session).number;
    saver(waiter.id, namespaces_.TenantAt(waiter.tenant).principal, session,
          requests_.At(waiter.record).request_id, waiter.owner, waiter.metadata, waiter.value,
          waiter.ttl, waiter.lease_id, waiter.queued_at, waiter.deadline, waiter.attachment,
          waiter.attached, waiter.detach_at);
  }
}

void Locks::SaveHistory(Saver& saver, const Ordinals& ordinals) const {
  saver(history_.first(), static_cast<std::uint64_t>(history_.size()));
  for (std::uint64_t position = history_.first(); history_.Has(position); ++position) {
    const Transition& transition = history_.At(position);
    saver(transition.index, transition.at, transition.cause, transition.token, transition.lease_id,
          transition.owner, transition.reason == nullptr ? std::string() : *transition.reason,
          ordinals.find(transition.resource)->second, transition.previous);
  }
}

void Locks::SaveSessionLists(Saver& saver, const Ordinals& ordinals) const {
  for (const auto& [number, session_slot] : sessions_.by_number()) {
    const Session& session = sessions_.At(session_slot);
    saver(static_cast<std::uint64_t>(session.holds.size),
          static_cast<std::uint64_t>(session.waits.size));
    for (Slot slot = session.holds.first; slot != kNoSlot;
         slot = resources_[slot].on_session.next) {
      saver(ordinals.find(slot)->second);
    }
    for (Slot slot = session.waits.first; slot != kNoSlot; slot = waiters_[slot].on_session.next) {
      saver(waiters_[slot].id);
    }
  }
}

void Locks::Load(ArchiveReader& reader, Timers& timers) {
  std::uint64_t count = 0;
  reader(last_token_, last_waiter_, blocked_until_, count);
  std::vector<Slot> slots;
  for (std::uint64_t i = 0; i < count && reader.ok(); ++i) {
    slots.push_back(LoadResource(reader, timers));
  }
  LoadHistory(reader, slots);
  LoadSessionLists(reader, slots);
}

Slot Locks::LoadResource(ArchiveReader& reader, Timers& timers) {
  NamespaceId id = 0;
  std::string name;
  reader(id, name);
  if (!reader.ok() || !namespaces_.Exists(id)) {
    reader.Fail();
    return kNoSlot;
  }
  const Slot slot = FindOrAdd(id, name);
  if (slot == kNoSlot) {
    reader.Fail();
    return kNoSlot;
  }
  Resource& resource = resources_[slot];
  reader(resource.held, resource.delayed, resource.delay_until, resource.last_token,
         resource.last_transition, resource.transitions);
  if (resource.held) {
    LoadLease(reader, timers, slot);
  }
  if (resource.delayed) {
    timers.Set(Timer{resource.delay_until, TimerKind::kDelay, resource.last_token, slot});
  }
  LoadWaiters(reader, timers, slot);
  return slot;
}

void Locks::LoadLease(ArchiveReader& reader, Timers& timers, Slot slot) {
  Resource& resource = resources_[slot];
  Lease& lease = resource.lease;
  std::string principal;
  std::uint64_t session = 0;
  reader(lease.id, lease.token, lease.owner, lease.metadata, principal, session, lease.ttl,
         lease.promise, lease.granted_at, lease.renewed_at, lease.deadline, lease.timer_at,
         lease.has_timer, lease.provisional, lease.revoking, lease.frozen, lease.since,
         lease.reason, resource.value);
  lease.session = session == 0 ? kNoSlot : sessions_.ByNumber(session);
  if (session != 0 && lease.session == kNoSlot) {
    reader.Fail();
  }
  lease.tenant = namespaces_.TenantOf(resource.name_space, principal);
  ++holds_;
  ++namespaces_.TenantAt(lease.tenant).holds;
  ++namespaces_.At(resource.name_space).holds;
  namespaces_.Reference(lease.tenant);
  if (lease.has_timer) {
    timers.Set(Timer{lease.timer_at, TimerKind::kLease, lease.token, slot});
  }
}

void Locks::LoadWaiters(ArchiveReader& reader, Timers& timers, Slot slot) {
  Resource& resource = resources_[slot];
  std::uint64_t count = 0;
  reader(count);
  for (std::uint64_t i = 0; i < count && reader.ok(); ++i) {
    if (resource.queue == nullptr) {
      resource.queue = std::make_unique<WaitQueue>();
    }
    const Slot waiter_slot = waiters_.Add();
    Waiter& waiter = waiters_[waiter_slot];
    std::string principal;
    std::string request_id;
    std::uint64_t session = 0;
    reader(waiter.id, principal, session, request_id, waiter.owner, waiter.metadata, waiter.value,
           waiter.ttl, waiter.lease_id, waiter.queued_at, waiter.deadline, waiter.attachment,
           waiter.attached, waiter.detach_at);
    waiter.resource = slot;
    waiter.tenant = namespaces_.TenantOf(resource.name_space, principal);
    waiter.record = requests_.Find(waiter.tenant, request_id);
    waiter.session = session == 0 ? kNoSlot : sessions_.ByNumber(session);
    if (waiter.record == kNoSlot || (session != 0 && waiter.session == kNoSlot)) {
      reader.Fail();
      return;
    }
    PushBack<Waiter, &Waiter::in_queue>(waiters_, resource.queue->all, waiter_slot);
    if (waiter.attached) {
      resource.queue->attached.emplace(waiter.id, waiter_slot);
    } else {
      timers.Set(Timer{waiter.detach_at, TimerKind::kDetach, waiter.id, waiter_slot});
    }
    timers.Set(Timer{waiter.deadline, TimerKind::kWait, waiter.id, waiter_slot});
    waiter_by_id_.emplace(waiter.id, waiter_slot);
    ++namespaces_.TenantAt(waiter.tenant).waiters;
    ++namespaces_.At(resource.name_space).waiters;
    namespaces_.Reference(waiter.tenant);
  }
}

void Locks::LoadHistory(ArchiveReader& reader, const std::vector<Slot>& slots) {
  std::uint64_t first = 0;
  std::uint64_t count = 0;
  reader(first, count);
  history_.Restore(first);
  for (std::uint64_t i = 0; i < count && reader.ok(); ++i) {
    if (history_.full()) {
      reader.Fail();
      return;
    }
    Transition& transition = history_.Add();
    std::string reason;
    std::uint64_t ordinal = 0;
    reader(transition.index, transition.at, transition.cause, transition.token, transition.lease_id,
           transition.owner, reason, ordinal, transition.previous);
    if (ordinal >= slots.size()) {
      reader.Fail();
      return;
    }
    transition.resource = slots[ordinal];
    if (!reason.empty()) {
      transition.reason = std::make_unique<std::string>(reason);
    }
  }
}

void Locks::LoadSessionLists(ArchiveReader& reader, const std::vector<Slot>& slots) {
  for (const auto& [number, session_slot] : sessions_.by_number()) {
    Session& session = sessions_.At(session_slot);
    std::uint64_t holds = 0;
    std::uint64_t waits = 0;
    reader(holds, waits);
    for (std::uint64_t i = 0; i < holds && reader.ok(); ++i) {
      std::uint64_t ordinal = 0;
      reader(ordinal);
      const bool known =
          ordinal < slots.size() && resources_[slots[ordinal]].lease.session == session_slot;
      if (!known ||
          IsLinked(session.holds, resources_[slots[ordinal]].on_session, slots[ordinal])) {
        reader.Fail();
        return;
      }
      PushBack<Resource, &Resource::on_session>(resources_, session.holds, slots[ordinal]);
    }
    for (std::uint64_t i = 0; i < waits && reader.ok(); ++i) {
      WaiterId id = 0;
      reader(id);
      const auto found = waiter_by_id_.find(id);
      const bool known =
          found != waiter_by_id_.end() && waiters_[found->second].session == session_slot;
      if (!known || IsLinked(session.waits, waiters_[found->second].on_session, found->second)) {
        reader.Fail();
        return;
      }
      PushBack<Waiter, &Waiter::on_session>(waiters_, session.waits, found->second);
    }
  }
}

std::string Locks::FindInconsistency(Slot slot, const Timers& timers,
                                     const EpochFloors& floors) const {
  const Resource& resource = resources_[slot];
  const Lease& lease = resource.lease;
  if (resource.held) {
    const bool needs_timer = HasOwnEnd(lease) && !OnEndedSession(lease);
    if (lease.has_timer != timers.Has(lease.timer_at, TimerKind::kLease, lease.token) ||
        (needs_timer && !lease.has_timer)) {
      return "lease of " + resource.name + " has no timer";
    }
    if (needs_timer && OwnEnd(floors, lease) < lease.timer_at) {
      return "timer of " + resource.name + " is after its deadline";
    }
    if (lease.token > last_token_ || lease.token != resource.last_token) {
      return "token of " + resource.name + " is not the newest of the resource";
    }
    if (resource.delayed) {
      return resource.name + " is held and delayed";
    }
  }
  if (resource.delayed &&
      !timers.Has(resource.delay_until, TimerKind::kDelay, resource.last_token)) {
    return "lock-delay of " + resource.name + " has no timer";
  }
  if (resource.queue == nullptr) {
    return {};
  }
  if (!resource.held && !resource.delayed && !resource.queue->attached.empty()) {
    return resource.name + " is free while an attached waiter waits";
  }
  std::size_t attached = 0;
  WaiterId last = 0;
  for (Slot at = resource.queue->all.first; at != kNoSlot; at = waiters_[at].in_queue.next) {
    const Waiter& waiter = waiters_[at];
    if (waiter.id <= last) {
      return "queue of " + resource.name + " is out of order";
    }
    last = waiter.id;
    attached += waiter.attached ? 1 : 0;
    if (waiter.attached != resource.queue->attached.contains(std::pair(waiter.id, at))) {
      return "attachment of a waiter of " + resource.name + " is wrong";
    }
    if (!timers.Has(waiter.deadline, TimerKind::kWait, waiter.id) ||
        (!waiter.attached && !timers.Has(waiter.detach_at, TimerKind::kDetach, waiter.id))) {
      return "a waiter of " + resource.name + " has no timer";
    }
    if (requests_.At(waiter.record).kind != RecordKind::kWaiting ||
        requests_.At(waiter.record).waiter != waiter.id) {
      return "a waiter of " + resource.name + " is not remembered as waiting";
    }
  }
  return attached == resource.queue->attached.size()
             ? std::string()
             : "attached waiters of " + resource.name + " are miscounted";
}

std::string Locks::FindInconsistency(const Timers& timers, const EpochFloors& floors) const {
  absl::btree_map<Slot, std::pair<std::uint64_t, std::uint64_t>>
      usage;  // by tenant: holds, waiters
  absl::btree_set<Token> tokens;
  std::size_t holds = 0;
  std::size_t transitions = 0;
  for (const auto& [key, slot] : ordered_) {
    const Resource& resource = resources_[slot];
    if (std::string wrong = FindInconsistency(slot, timers, floors); !wrong.empty()) {
      return wrong;
    }
    transitions += resource.transitions;
    if (resource.held) {
      ++holds;
      ++usage[resource.lease.tenant].first;
      if (!tokens.insert(resource.lease.token).second) {
        return "two leases have the same token";
      }
    }
  }
  for (const auto& [id, slot] : waiter_by_id_) {
    ++usage[waiters_[slot].tenant].second;
  }
  for (const auto& [tenant, counts] : usage) {
    if (namespaces_.TenantAt(tenant).holds != counts.first ||
        namespaces_.TenantAt(tenant).waiters != counts.second) {
      return "holds or waiters of a tenant are miscounted";
    }
  }
  if (holds != holds_ || waiter_by_id_.size() != waiters_.size() ||
      transitions != history_.size() || ordered_.size() != resources_.size() ||
      index_.size() != resources_.size()) {
    return "holds, waiters, transitions or resources are miscounted";
  }
  return {};
}

}  // namespace holdfast::core
