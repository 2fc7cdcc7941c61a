#include "core/locks.h"

#include <algorithm>

#include "base/check.h"
#include "base/planted.h"
#include "core/hash.h"
#include "core/limits.h"

namespace holdfast::core {
namespace {

// What the owner of a session would not expect of one of its holds.
bool IsRevocation(Cause cause) {
  return cause != Cause::kReleased && cause != Cause::kCancelled &&
         cause != Cause::kSessionClosed && cause != Cause::kSessionExpired;
}

}  // namespace

Slot Locks::Find(NamespaceId id, std::string_view name) const {
  return index_.Find(Hash64(name, id), [&](const Resource& resource) {
    return resource.name_space == id && resource.name == name;
  });
}

Slot Locks::FindOrAdd(NamespaceId id, const std::string& name) {
  if (const Slot known = Find(id, name); known != kNoSlot) {
    return known;
  }
  if (resources_.size() >= kResourcesMax) {
    return kNoSlot;
  }
  const Slot slot = resources_.Add();
  resources_[slot].name = name;
  resources_[slot].name_space = id;
  resources_[slot].hash = Hash64(name, id);
  index_.Insert(resources_[slot].hash, slot);
  ordered_.emplace(ResourceKey(id, name), slot);
  namespaces_.Keep(id);
  return slot;
}

void Locks::ForgetIfIdle(Slot slot) {
  const Resource& resource = resources_[slot];
  // Most have a history: then the rest of the resource is not even fetched from memory.
  if (resource.transitions > 0 || resource.held || resource.delayed || resource.queue != nullptr) {
    return;
  }
  const NamespaceId id = resource.name_space;
  index_.Erase(resource.hash, slot);
  ordered_.erase(ordered_.find(ResourceKeyView(id, resource.name)));
  resources_.Free(slot);
  namespaces_.Drop(id);
}

Locks::LeaseEnd Locks::EndOf(const EpochFloors& floors, const Resource& resource) const {
  const Lease& lease = resource.lease;
  const Cause own = lease.revoking      ? Cause::kBroken
                    : lease.provisional ? Cause::kUnconfirmed
                                        : Cause::kExpired;
  if (lease.session == kNoSlot) {
    return LeaseEnd{OwnEnd(floors, lease), own};
  }
  const Session& session = sessions_.At(lease.session);
  if (session.ended != Cause::kNone) {
    return LeaseEnd{session.ended_at, session.ended};
  }
  const Timestamp session_end = Sessions::End(floors, session);
  if (!HasOwnEnd(lease)) {
    return LeaseEnd{session_end, Cause::kSessionExpired};
  }
  const Timestamp own_end = OwnEnd(floors, lease);
  return own_end < session_end ? LeaseEnd{own_end, own}
                               : LeaseEnd{session_end, Cause::kSessionExpired};
}

Slot Locks::Settle(Context& context, Slot slot) {
  const Resource& resource = resources_[slot];
  const bool lease_over = IsOver(context.floors, resource, context.now);
  const bool delay_over = resource.delayed && resource.delay_until < context.now;
  if (!lease_over && !delay_over) {
    return slot;
  }
  const ResourceKey key(resource.name_space, resource.name);
  if (lease_over) {
    EndAndHandOver(context, slot, EndOf(context.floors, resource), /*delay=*/true);
  } else {
    ClearDelay(context, slot);
    HandOver(context, slot);
  }
  return Find(key.first, key.second);
}

Granted Locks::Begin(Context& context, Slot slot, const Claim& claim, Cause cause) {
  Resource& resource = resources_[slot];
  HF_CHECK(!resource.held && last_token_ < kTokenMax, "a lease begins on a free resource");
  Lease& lease = resource.lease;
  lease.id = claim.lease_id;
  lease.token = ++last_token_;
  if (Planted(Bug::kTokenPerResource)) {
    lease.token = resource.last_token + 1;
  }
  lease.owner = *claim.owner;
  lease.metadata = *claim.metadata;
  lease.tenant = claim.tenant;
  lease.session = claim.session;
  lease.ttl = claim.ttl;
  lease.provisional = cause == Cause::kHandedOver;
  lease.promise = lease.provisional ? std::min(claim.ttl, kProvisionalMax) : claim.ttl;
  lease.granted_at = context.now;
  lease.renewed_at = context.now;
  lease.deadline = context.now + lease.promise;
  lease.timer_at = Timestamp{};
  lease.since = context.wall;
  resource.held = true;
  resource.last_token = lease.token;
  resource.value = *claim.value;

  ++holds_;
  ++namespaces_.TenantAt(claim.tenant).holds;
  ++namespaces_.At(resource.name_space).holds;
  namespaces_.Reference(claim.tenant);
  const Duration hold_max = PolicyOf(resource).hold_max;
  if (claim.session == kNoSlot || lease.provisional) {
    SetLeaseTimer(context, slot, lease.deadline);
  } else if (hold_max > Duration{}) {
    SetLeaseTimer(context, slot, lease.granted_at + hold_max);
  }
  if (claim.session != kNoSlot) {
    PushBack<Resource, &Resource::on_session>(resources_, sessions_.At(claim.session).holds, slot);
  }
  Note(context, slot, cause, {});
  Emit(context, resource, EventKind::kGranted, cause, lease.tenant, lease.owner);
  return Describe(context, resource);
}

Granted Locks::Describe(const Context& context, const Resource& resource) const {
  const Duration remaining = EndOf(context.floors, resource).at - context.now;
  return Granted{
      resource.lease.id,          resource.lease.token,          resource.lease.ttl,      remaining,
      resource.lease.provisional, PolicyOf(resource).protection, context.wall + remaining};
}

// Ends the lease and nothing else: who comes next is HandOver's business.
void Locks::End(Context& context, Slot slot, const LeaseEnd& end) {
  Resource& resource = resources_[slot];
  Lease& lease = resource.lease;
  CancelLeaseTimer(context, slot);
  if (lease.session != kNoSlot) {
    Session& session = sessions_.At(lease.session);
    Unlink<Resource, &Resource::on_session>(resources_, session.holds, slot);
    session.revocations += IsRevocation(end.cause) ? 1 : 0;
  }
  --holds_;
  --namespaces_.TenantAt(lease.tenant).holds;
  --namespaces_.At(resource.name_space).holds;
  Note(context, slot, end.cause, lease.reason);
  Emit(context, resource, EventKind::kEnded, end.cause, lease.tenant, lease.owner);
  const Timestamp promised =
      HasOwnEnd(lease) ? lease.deadline : sessions_.At(lease.session).deadline;
  context.out.events.back().late = std::max(Duration{}, context.now - promised);
  if (!lease.reason.empty()) {
    context.out.events.back().reason = lease.reason;
  }
  namespaces_.Unreference(lease.tenant);
  resource.held = false;
  // Keeps the capacity of the strings for the next lease.
  lease.owner.clear();
  lease.metadata.clear();
  lease.reason.clear();
  lease.session = kNoSlot;
  lease.revoking = false;
  lease.frozen = false;
  resource.value.clear();
}

std::optional<Timestamp> Locks::DelayAfter(const Resource& resource, const LeaseEnd& end,
                                           Timestamp at) const {
  const Duration lock_delay = PolicyOf(resource).lock_delay;
  // A holder that released, closed its session or never confirmed cannot have work under way; one
  // that vanished can.
  const bool may_still_act = end.cause == Cause::kExpired || end.cause == Cause::kSessionExpired ||
                             end.cause == Cause::kBroken;
  if (!may_still_act || lock_delay <= Duration{} || end.at + lock_delay < at) {
    return std::nullopt;
  }
  return end.at + lock_delay;
}

void Locks::EndAndHandOver(Context& context, Slot slot, const LeaseEnd& end, bool delay) {
  End(context, slot, end);
  Resource& resource = resources_[slot];
  const std::optional<Timestamp> until = DelayAfter(resource, end, context.now);
  if (delay && until.has_value()) {
    resource.delayed = true;
    resource.delay_until = *until;
    context.timers.Set(Timer{resource.delay_until, TimerKind::kDelay, resource.last_token, slot});
    return;
  }
  HandOver(context, slot);
}

void Locks::ClearDelay(Context& context, Slot slot) {
  Resource& resource = resources_[slot];
  context.timers.Cancel(resource.delay_until, TimerKind::kDelay, resource.last_token);
  resource.delayed = false;
}

bool Locks::BelowHoldLimit(Slot tenant) const {
  const Tenant& usage = namespaces_.TenantAt(tenant);
  return usage.holds < namespaces_.At(usage.name_space).policy.holds_per_tenant;
}

// Grants to the first waiter that can take it, in this very batch: one waiter is answered, the
// others hear nothing.
void Locks::HandOver(Context& context, Slot slot) {
  Resource& resource = resources_[slot];
  while (resource.queue != nullptr && !resource.queue->attached.empty()) {
    const Slot next = resource.queue->attached.begin()->second;
    Waiter& waiter = waiters_[next];
    if (RemoveIfOver(context, next)) {
      continue;
    }
    if (last_token_ >= kTokenMax) {
      RemoveWaiter(context, next, RefusalCode::kStateFull, Cause::kNone);
      continue;
    }
    if (!BelowHoldLimit(waiter.tenant)) {
      RemoveWaiter(context, next, RefusalCode::kTenantLimit, Cause::kNone);
      continue;
    }
    const Claim claim{waiter.lease_id, waiter.tenant,    waiter.session, waiter.ttl,
                      &waiter.owner,   &waiter.metadata, &waiter.value};
    const Granted granted = Begin(context, slot, claim, Cause::kHandedOver);
    Record& record = requests_.At(waiter.record);
    record.kind = RecordKind::kGranted;
    record.capability = granted.lease_id;
    record.token = granted.token;
    requests_.Touch(context, waiter.record);
    context.out.resolutions.push_back(Resolution{waiter.id, waiter.attachment, granted});
    UnlinkWaiter(context, next);
    return;
  }
  ForgetIfIdle(slot);
}

void Locks::SetLeaseTimer(Context& context, Slot slot, Timestamp at) {
  Lease& lease = resources_[slot].lease;
  lease.timer_at = at;
  lease.has_timer = true;
  context.timers.Set(Timer{at, TimerKind::kLease, lease.token, slot});
}

void Locks::CancelLeaseTimer(Context& context, Slot slot) {
  Lease& lease = resources_[slot].lease;
  if (lease.has_timer) {
    context.timers.Cancel(lease.timer_at, TimerKind::kLease, lease.token);
    lease.has_timer = false;
  }
}

void Locks::OnLeaseTimer(Context& context, Slot slot) {
  Resource& resource = resources_[slot];
  Lease& lease = resource.lease;
  lease.has_timer = false;
  if (OnEndedSession(lease)) {
    return;  // it ends with the other holds of its session
  }
  if (HasOwnEnd(lease)) {
    const Timestamp end = OwnEnd(context.floors, lease);
    if (end > lease.timer_at) {
      SetLeaseTimer(context, slot,
                    end);  // renewed since the timer was set: its turn comes at its own end
    } else {
      EndAndHandOver(context, slot, EndOf(context.floors, resource), /*delay=*/true);
    }
    return;
  }
  const Duration hold_max = PolicyOf(resource).hold_max;
  if (hold_max > Duration{}) {
    if (lease.granted_at + hold_max < context.now) {
      Freeze(context, slot);
    } else {
      SetLeaseTimer(context, slot, lease.granted_at + hold_max);
    }
  }
}

// From now on the session's keepalives do not extend this hold: it keeps the promise that it has.
void Locks::Freeze(Context& context, Slot slot) {
  Lease& lease = resources_[slot].lease;
  if (lease.session == kNoSlot || lease.frozen) {
    return;
  }
  lease.frozen = true;
  ++sessions_.At(lease.session).revocations;
  if (!lease.provisional) {  // a provisional one has a promise of its own already
    const Session& session = sessions_.At(lease.session);
    lease.deadline = session.deadline;
    lease.renewed_at = session.renewed_at;
    lease.promise = session.ttl;
  }
  CancelLeaseTimer(context, slot);
  SetLeaseTimer(context, slot, OwnEnd(context.floors, lease));
}

void Locks::Note(Context& context, Slot slot, Cause cause, const std::string& reason) {
  if (history_.full()) {
    const Slot oldest = history_.DropOldest();
    --resources_[oldest].transitions;
    ForgetIfIdle(oldest);
  }
  Resource& resource = resources_[slot];
  Transition& transition = history_.Add();
  transition.index = context.index;
  transition.at = context.wall;
  transition.cause = cause;
  transition.token = resource.lease.token;
  transition.lease_id = resource.lease.id;
  transition.owner = resource.lease.owner;
  transition.reason = reason.empty() ? nullptr : std::make_unique<std::string>(reason);
  transition.resource = slot;
  transition.previous = resource.last_transition;
  resource.last_transition = history_.last();
  ++resource.transitions;
}

void Locks::Emit(Context& context, const Resource& resource, EventKind kind, Cause cause,
                 Slot tenant, const std::string& owner) {
  Event& event = context.out.events.emplace_back();
  event.kind = kind;
  event.cause = cause;
  event.name_space = namespaces_.At(resource.name_space).name;
  event.resource = resource.name;
  event.principal = namespaces_.TenantAt(tenant).principal;
  event.owner = owner;
  if (kind != EventKind::kWaiting &&
      kind != EventKind::kWaiterLeft) {  // a waiter has no lease; the holder's is not its own
    event.token = resource.lease.token;
    event.capability = resource.lease.id;
    event.value = resource.value;
  }
}

void Locks::Recover(Context& context, Token floor, Timestamp until) {
  last_token_ = std::max(last_token_, floor);
  blocked_until_ = std::max(blocked_until_, until);
  // Who waited in the state that was lost or copied asks again when grants are possible.
  while (!waiter_by_id_.empty()) {
    Leave(context, waiter_by_id_.begin()->second, RefusalCode::kGrantsBlocked, Cause::kNone);
  }
}

void Locks::OnTimer(Context& context, const Timer& timer) {
  switch (timer.kind) {
    case TimerKind::kLease:
      OnLeaseTimer(context, timer.slot);
      return;
    case TimerKind::kWait:
      Leave(context, timer.slot, RefusalCode::kWaitTimeout, Cause::kWaitTimedOut);
      return;
    case TimerKind::kDetach:
      Leave(context, timer.slot, RefusalCode::kCancelled, Cause::kDetachedTooLong);
      return;
    case TimerKind::kDelay:
      Settle(context, timer.slot);
      return;
    case TimerKind::kSession:
    case TimerKind::kForgetRequests:
    case TimerKind::kForgetClients:
      break;
  }
  HF_CHECK(false, "a timer of another part");
}

void Locks::DrainSessions(Context& context) {
  while (context.due_left > 0) {
    const Slot slot = sessions_.FirstToDrain();
    if (slot == kNoSlot) {
      return;
    }
    --context.due_left;
    const Session& session = sessions_.At(slot);
    if (!session.holds.empty()) {
      EndAndHandOver(context, session.holds.first, LeaseEnd{session.ended_at, session.ended},
                     /*delay=*/true);
    } else {
      Leave(context, session.waits.first, RefusalCode::kSessionEnded, session.ended);
    }
  }
}

}  // namespace holdfast::core
