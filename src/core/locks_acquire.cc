// Requests for a lock: decided at once, queued, repeated, cancelled, detached.
#include <algorithm>

#include "base/planted.h"
#include "core/hash.h"
#include "core/limits.h"
#include "core/locks.h"

namespace holdfast::core {
namespace {

// Whoever wants to cancel a request names its resource and owner.
std::uint64_t CancellerOf(const std::string& resource, const std::string& owner) {
  return Hash64(owner, Hash64(resource));
}

}  // namespace

Outcome Locks::Acquire(Context& context, NamespaceId id, const std::string& principal,
                       const core::Acquire& command) {
  const Slot tenant = namespaces_.TenantOf(id, principal);
  if (tenant == kNoSlot) {
    Refused refused;
    refused.code = RefusalCode::kStateFull;
    refused.limit = "tenants=" + std::to_string(kTenantsMax);
    return refused;
  }
  requests_.NoteClient(context, tenant, command.client);
  if (const Slot known = requests_.Find(tenant, command.request_id); known != kNoSlot) {
    return Repeat(context, id, command, known);
  }
  Refused refused;
  if (requests_.IsBelowWatermark(tenant, command.client)) {
    refused.code = RefusalCode::kEnded;  // its client has seen the answer: a late duplicate
    return refused;
  }
  if (!requests_.HasRoom(tenant, command.request_id)) {
    refused.code = RefusalCode::kTenantLimit;
    refused.limit = "request_bytes_per_tenant=" +
                    std::to_string(namespaces_.At(id).policy.request_bytes_per_tenant);
    namespaces_.ForgetIfIdle(tenant);
    return refused;
  }
  const Slot record = requests_.Add(context, tenant, command.request_id, command.client);
  requests_.At(record).fingerprint = FingerprintOf(command);
  requests_.At(record).canceller = CancellerOf(command.resource, command.owner);
  return Decide(context, id, command, tenant, record);
}

Outcome Locks::Decide(Context& context, NamespaceId id, const core::Acquire& command, Slot tenant,
                      Slot record) {
  const Policy& policy = namespaces_.At(id).policy;
  if (policy.strict && policy.protection == Guarantee::kAdvisory) {
    return Refuse(context, RefusalCode::kFencingRequired, kNoSlot, record);
  }
  if (GrantsBlocked(context.now)) {
    return Refuse(context, RefusalCode::kGrantsBlocked, kNoSlot, record);
  }
  Slot session = kNoSlot;
  if (!IsZero(command.session)) {
    session = sessions_.Find(id, command.session);
    const bool usable = session != kNoSlot && sessions_.At(session).tenant == tenant &&
                        !Sessions::IsOver(context.floors, sessions_.At(session), context.now);
    if (!usable) {
      return Refuse(context, RefusalCode::kSessionEnded, kNoSlot, record);
    }
  }
  Slot slot = Find(id, command.resource);
  if (slot != kNoSlot) {
    slot = Settle(context, slot);
  }
  if (slot == kNoSlot && last_token_ < kTokenMax) {
    slot = FindOrAdd(id, command.resource);
  }
  if (slot == kNoSlot || last_token_ >= kTokenMax) {
    return Refuse(context, RefusalCode::kStateFull, kNoSlot, record);
  }
  const Resource& resource = resources_[slot];
  if (resource.held || resource.delayed) {
    return RefuseOrQueue(context, command, slot, tenant, session, record);
  }
  if (!BelowHoldLimit(tenant)) {
    Outcome refused = Refuse(context, RefusalCode::kTenantLimit, slot, record);
    ForgetIfIdle(slot);
    return refused;
  }
  const Duration ttl = command.ttl == Duration{}
                           ? policy.ttl_default
                           : std::clamp(command.ttl, policy.ttl_min, policy.ttl_max);
  const Claim claim{command.lease_id, tenant,
                    session,          session == kNoSlot ? ttl : sessions_.At(session).ttl,
                    &command.owner,   &command.metadata,
                    &command.value};
  const Granted granted = Begin(context, slot, claim, Cause::kAcquired);
  Record& remembered = requests_.At(record);
  remembered.kind = RecordKind::kGranted;
  remembered.capability = granted.lease_id;
  remembered.token = granted.token;
  return granted;
}

Refused Locks::Refuse(Context& context, RefusalCode code, Slot slot, Slot record) {
  Refused refused;
  refused.code = code;
  if (record != kNoSlot && !Planted(Bug::kForgetsRefusals)) {
    // A refusal is remembered too: a late duplicate of this request never grants.
    requests_.At(record).kind = RecordKind::kRefused;
    requests_.At(record).code = code;
  }
  if (code == RefusalCode::kGrantsBlocked && GrantsBlocked(context.now)) {
    refused.retry_after = blocked_until_ - context.now;
  }
  if (code == RefusalCode::kStateFull) {
    refused.limit = last_token_ >= kTokenMax ? "fencing_tokens=" + std::to_string(kTokenMax)
                                             : "resources=" + std::to_string(kResourcesMax);
  }
  if (slot == kNoSlot) {
    return refused;
  }
  const Resource& resource = resources_[slot];
  const Policy& policy = PolicyOf(resource);
  refused.queue_length = resource.queue == nullptr ? 0 : resource.queue->all.size;
  if (resource.held) {
    refused.holder =
        std::make_unique<HolderView>(ViewHolder(context.floors, resource, context.now));
    refused.retry_after = std::max(refused.retry_after.value_or(Duration{}), refused.holder->left);
  } else if (resource.delayed) {
    refused.retry_after = std::max(
        {refused.retry_after.value_or(Duration{}), resource.delay_until - context.now, Duration{}});
  }
  if (code == RefusalCode::kQueueFull) {
    refused.limit = "waiters_per_resource=" + std::to_string(policy.waiters_per_resource);
  } else if (code == RefusalCode::kTenantLimit) {
    refused.limit = "holds_per_tenant=" + std::to_string(policy.holds_per_tenant);
  }
  return refused;
}

Outcome Locks::RefuseOrQueue(Context& context, const core::Acquire& command, Slot slot, Slot tenant,
                             Slot session, Slot record) {
  const Resource& resource = resources_[slot];
  if (session != kNoSlot) {
    if (resource.held && resource.lease.session == session) {
      return Refuse(context, RefusalCode::kAlreadyHeld, slot, record);
    }
    if (IsWaiting(slot, session)) {
      return Refuse(context, RefusalCode::kAlreadyWaiting, slot, record);
    }
  }
  if (command.wait == Duration{}) {
    return Refuse(context, resource.held ? RefusalCode::kHeld : RefusalCode::kDelayed, slot,
                  record);
  }
  const Policy& policy = PolicyOf(resource);
  const std::uint32_t queued = resource.queue == nullptr ? 0 : resource.queue->all.size;
  if (queued >= policy.waiters_per_resource) {
    return Refuse(context, RefusalCode::kQueueFull, slot, record);
  }
  if (namespaces_.TenantAt(tenant).waiters >= policy.waiters_per_tenant) {
    Refused refused = Refuse(context, RefusalCode::kTenantLimit, slot, record);
    refused.limit = "waiters_per_tenant=" + std::to_string(policy.waiters_per_tenant);
    return refused;
  }
  return Enqueue(context, command, slot, tenant, session, record);
}

// Looks through the shorter of the two lists that would show it.
bool Locks::IsWaiting(Slot slot, Slot session) const {
  const WaitQueue* queue = resources_[slot].queue.get();
  if (queue == nullptr) {
    return false;
  }
  const SlotList& waits = sessions_.At(session).waits;
  if (waits.size < queue->all.size) {
    for (Slot waiter = waits.first; waiter != kNoSlot; waiter = waiters_[waiter].on_session.next) {
      if (waiters_[waiter].resource == slot) {
        return true;
      }
    }
    return false;
  }
  for (Slot waiter = queue->all.first; waiter != kNoSlot; waiter = waiters_[waiter].in_queue.next) {
    if (waiters_[waiter].session == session) {
      return true;
    }
  }
  return false;
}

Outcome Locks::Enqueue(Context& context, const core::Acquire& command, Slot slot, Slot tenant,
                       Slot session, Slot record) {
  Resource& resource = resources_[slot];
  const Policy& policy = PolicyOf(resource);
  const Slot waiter_slot = waiters_.Add();
  Waiter& waiter = waiters_[waiter_slot];
  waiter.id = ++last_waiter_;
  waiter.resource = slot;
  waiter.tenant = tenant;
  waiter.session = session;
  waiter.record = record;
  waiter.owner = command.owner;
  waiter.metadata = command.metadata;
  waiter.value = command.value;
  waiter.ttl = command.ttl == Duration{} ? policy.ttl_default
                                         : std::clamp(command.ttl, policy.ttl_min, policy.ttl_max);
  if (session != kNoSlot) {
    waiter.ttl = sessions_.At(session).ttl;
    PushBack<Waiter, &Waiter::on_session>(waiters_, sessions_.At(session).waits, waiter_slot);
  }
  waiter.lease_id = command.lease_id;
  waiter.queued_at = context.now;
  waiter.deadline = context.now + std::min(command.wait, policy.wait_max);

  if (resource.queue == nullptr) {
    resource.queue = std::make_unique<WaitQueue>();
  }
  PushBack<Waiter, &Waiter::in_queue>(waiters_, resource.queue->all, waiter_slot);
  resource.queue->attached.emplace(waiter.id, waiter_slot);
  waiter_by_id_.emplace(waiter.id, waiter_slot);
  ++namespaces_.TenantAt(tenant).waiters;
  ++namespaces_.At(resource.name_space).waiters;
  namespaces_.Reference(tenant);
  context.timers.Set(Timer{waiter.deadline, TimerKind::kWait, waiter.id, waiter_slot});

  Record& remembered = requests_.At(record);
  remembered.kind = RecordKind::kWaiting;
  remembered.waiter = waiter.id;
  Emit(context, resource, EventKind::kWaiting, Cause::kNone, tenant, waiter.owner);
  return Queued{waiter.id, waiter.attachment, resource.queue->all.size};
}

// The same request id again: the first answer, or what has become of it.
Outcome Locks::Repeat(Context& context, NamespaceId id, const core::Acquire& command, Slot record) {
  const std::uint64_t fingerprint = requests_.At(record).fingerprint;
  if (fingerprint != 0 && fingerprint != FingerprintOf(command)) {
    Refused refused;
    refused.code = RefusalCode::kRequestIdReused;
    return refused;
  }
  // What is over is answered as over, with its cause.
  if (const Slot known = Find(id, command.resource); known != kNoSlot) {
    if (requests_.At(record).kind == RecordKind::kGranted) {
      Settle(context, known);
    } else if (requests_.At(record).kind == RecordKind::kWaiting &&
               RemoveIfOver(context, waiter_by_id_.at(requests_.At(record).waiter))) {
      ForgetIfIdle(known);
    }
  }
  const Slot slot = Find(id, command.resource);
  const RecordKind kind = requests_.At(record).kind;
  if (kind == RecordKind::kWaiting) {
    return Reattach(context, waiter_by_id_.at(requests_.At(record).waiter));
  }
  if (kind == RecordKind::kGranted) {
    if (slot != kNoSlot && resources_[slot].held &&
        resources_[slot].lease.id == requests_.At(record).capability) {
      return Describe(context, resources_[slot]);
    }
    Refused ended;
    ended.code = RefusalCode::kEnded;
    ended.cause = slot == kNoSlot ? Cause::kNone
                                  : HowItEnded(resources_[slot], requests_.At(record).capability);
    return ended;
  }
  if (kind == RecordKind::kCancelled) {
    Refused cancelled;
    cancelled.code = RefusalCode::kCancelled;
    return cancelled;
  }
  if (requests_.At(record).code ==
      RefusalCode::kNone) {  // only where a planted bug forgets refusals
    return Decide(context, id, command, requests_.At(record).tenant, record);
  }
  return Refuse(context, requests_.At(record).code, slot, kNoSlot);
}

Outcome Locks::Reattach(Context& context, Slot waiter_slot) {
  Waiter& waiter = waiters_[waiter_slot];
  const Slot slot = waiter.resource;
  ++waiter.attachment;
  if (!waiter.attached) {
    context.timers.Cancel(waiter.detach_at, TimerKind::kDetach, waiter.id);
    waiter.attached = true;
    resources_[slot].queue->attached.emplace(waiter.id, waiter_slot);
  }
  const Queued queued{waiter.id, waiter.attachment, resources_[slot].queue->all.size};
  Settle(context, slot);
  if (waiter_by_id_.contains(queued.waiter) && !resources_[slot].held &&
      !resources_[slot].delayed) {
    HandOver(context, slot);  // it was free, since only detached waiters were there
  }
  // If it was decided just now, the resolution follows with this very attachment.
  return queued;
}

void Locks::UnlinkWaiter(Context& context, Slot waiter_slot) {
  Waiter& waiter = waiters_[waiter_slot];
  Resource& resource = resources_[waiter.resource];
  context.timers.Cancel(waiter.deadline, TimerKind::kWait, waiter.id);
  resource.queue->attached.erase(std::pair(waiter.id, waiter_slot));
  if (!waiter.attached) {
    context.timers.Cancel(waiter.detach_at, TimerKind::kDetach, waiter.id);
  }
  Unlink<Waiter, &Waiter::in_queue>(waiters_, resource.queue->all, waiter_slot);
  if (resource.queue->all.empty()) {
    resource.queue = nullptr;
  }
  if (waiter.session != kNoSlot) {
    Unlink<Waiter, &Waiter::on_session>(waiters_, sessions_.At(waiter.session).waits, waiter_slot);
  }
  waiter_by_id_.erase(waiter.id);
  --namespaces_.TenantAt(waiter.tenant).waiters;
  --namespaces_.At(resource.name_space).waiters;
  namespaces_.Unreference(waiter.tenant);
  waiters_.Free(waiter_slot);
}

void Locks::RemoveWaiter(Context& context, Slot waiter_slot, RefusalCode refusal, Cause cause) {
  const Waiter& waiter = waiters_[waiter_slot];
  const Slot slot = waiter.resource;
  Record& record = requests_.At(waiter.record);
  record.waiter = 0;
  Refused refused = Refuse(context, refusal, slot, waiter.record);
  refused.cause = cause;
  --refused.queue_length;  // it has left
  if (refusal == RefusalCode::kCancelled) {
    record.kind = RecordKind::kCancelled;
  }
  requests_.Touch(context, waiter.record);
  Emit(context, resources_[slot], EventKind::kWaiterLeft, cause, waiter.tenant, waiter.owner);
  context.out.resolutions.push_back(Resolution{waiter.id, waiter.attachment, std::move(refused)});
  UnlinkWaiter(context, waiter_slot);
}

bool Locks::RemoveIfOver(Context& context, Slot waiter_slot) {
  const Waiter& waiter = waiters_[waiter_slot];
  if (waiter.session != kNoSlot &&
      Sessions::IsOver(context.floors, sessions_.At(waiter.session), context.now)) {
    RemoveWaiter(context, waiter_slot, RefusalCode::kSessionEnded,
                 Sessions::EndCause(sessions_.At(waiter.session)));
  } else if (waiter.deadline < context.now) {
    RemoveWaiter(context, waiter_slot, RefusalCode::kWaitTimeout, Cause::kWaitTimedOut);
  } else if (!waiter.attached && waiter.detach_at < context.now) {
    RemoveWaiter(context, waiter_slot, RefusalCode::kCancelled, Cause::kDetachedTooLong);
  } else {
    return false;
  }
  return true;
}

void Locks::Leave(Context& context, Slot waiter_slot, RefusalCode refusal, Cause cause) {
  const Slot slot = waiters_[waiter_slot].resource;
  RemoveWaiter(context, waiter_slot, refusal, cause);
  ForgetIfIdle(slot);
}

Cancelled Locks::Cancel(Context& context, NamespaceId id, const std::string& principal,
                        const core::Cancel& command) {
  const Slot tenant = namespaces_.TenantOf(id, principal);
  if (tenant == kNoSlot) {
    return Cancelled{CancelResult::kMemoryFull};
  }
  requests_.NoteClient(context, tenant, command.client);
  const Slot known = requests_.Find(tenant, command.request_id);
  if (known == kNoSlot) {
    if (requests_.IsBelowWatermark(tenant, command.client)) {
      return Cancelled{CancelResult::kAlreadyOver};
    }
    if (!requests_.HasRoom(tenant, command.request_id)) {
      namespaces_.ForgetIfIdle(tenant);
      return Cancelled{CancelResult::kMemoryFull};
    }
    Record& record =
        requests_.At(requests_.Add(context, tenant, command.request_id, command.client));
    record.kind = RecordKind::kCancelled;
    record.code = RefusalCode::kCancelled;
    record.canceller = CancellerOf(command.resource, command.owner);
    return Cancelled{CancelResult::kBeforeArrival};
  }
  Record& record = requests_.At(known);
  if (record.canceller != CancellerOf(command.resource, command.owner) ||
      record.kind == RecordKind::kSession) {
    return Cancelled{CancelResult::kNotYours};
  }
  if (record.kind == RecordKind::kWaiting) {
    const Slot waiter = waiter_by_id_.at(record.waiter);
    const Slot resource = waiters_[waiter].resource;
    if (RemoveIfOver(context, waiter)) {
      ForgetIfIdle(resource);
      return Cancelled{CancelResult::kAlreadyOver};
    }
    Leave(context, waiter, RefusalCode::kCancelled, Cause::kCancelled);
    return Cancelled{CancelResult::kWaiterRemoved};
  }
  const Slot slot = Find(id, command.resource);
  if (record.kind != RecordKind::kGranted || slot == kNoSlot) {
    return Cancelled{CancelResult::kAlreadyOver};
  }
  const Id128 lease_id = record.capability;
  const Slot settled = Settle(context, slot);
  if (settled == kNoSlot) {
    return Cancelled{CancelResult::kAlreadyOver};
  }
  const Resource& resource = resources_[settled];
  if (!resource.held || resource.lease.id != lease_id) {
    return Cancelled{CancelResult::kAlreadyOver};
  }
  if (!resource.lease.provisional && !Planted(Bug::kLateCancelEndsLease)) {
    return Cancelled{CancelResult::kStillGranted};
  }
  EndAndHandOver(context, settled, LeaseEnd{context.now, Cause::kCancelled}, /*delay=*/false);
  return Cancelled{CancelResult::kProvisionalReleased};
}

void Locks::DetachWaiter(Context& context, Slot waiter_slot) {
  Waiter& waiter = waiters_[waiter_slot];
  Resource& resource = resources_[waiter.resource];
  if (!waiter.attached) {
    return;
  }
  waiter.attached = false;
  if (!Planted(Bug::kWakesDetached)) {
    resource.queue->attached.erase(std::pair(waiter.id, waiter_slot));
  }
  waiter.detach_at = context.now + PolicyOf(resource).detach_grace;
  context.timers.Set(Timer{waiter.detach_at, TimerKind::kDetach, waiter.id, waiter_slot});
}

void Locks::Detach(Context& context, const core::Detach& command) {
  const auto found = waiter_by_id_.find(command.waiter);
  if (found != waiter_by_id_.end() && waiters_[found->second].attachment == command.attachment) {
    DetachWaiter(context, found->second);
  }
}

void Locks::DetachAll(Context& context) {
  for (const auto& [id, slot] : waiter_by_id_) {
    DetachWaiter(context, slot);
  }
}

}  // namespace holdfast::core
