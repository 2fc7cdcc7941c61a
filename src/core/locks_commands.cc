// The verbs of holders (renew, release, proclaim) and of administrators (break).
#include <algorithm>

#include "base/planted.h"
#include "core/limits.h"
#include "core/locks.h"

namespace holdfast::core {

// Looks for the end of this lease among the resource's newest transitions that are still
// remembered.
Cause Locks::HowItEnded(const Resource& resource, const Id128& lease_id) const {
  std::uint64_t position = resource.last_transition;
  for (std::size_t seen = 0; seen < kTransitionsSearched && history_.Has(position); ++seen) {
    const Transition& transition = history_.At(position);
    if (transition.lease_id == lease_id) {
      return transition.cause;
    }
    position = transition.previous;
  }
  return Cause::kNeverHeld;
}

NotRenewed Locks::NotCurrent(NamespaceId id, std::string_view name, const Id128& lease_id) const {
  const Slot slot = Find(id, name);
  return NotRenewed{
      slot == kNoSlot ? Cause::kNeverHeld : HowItEnded(resources_[slot], lease_id), {}, {}};
}

Outcome Locks::Renew(Context& context, NamespaceId id, const core::Renew& command) {
  const Slot slot = Find(id, command.resource);
  if (slot == kNoSlot || !resources_[slot].held || resources_[slot].lease.id != command.lease_id) {
    return NotCurrent(id, command.resource, command.lease_id);
  }
  Resource& resource = resources_[slot];
  Lease& lease = resource.lease;
  const LeaseEnd end = EndOf(context.floors, resource);
  // A renewal does not extend the session that the lease may be on: its keepalives came before.
  const bool session_over =
      lease.session != kNoSlot &&
      Sessions::IsOver(context.floors, sessions_.At(lease.session), context.now);
  if ((end.at < context.previous || session_over) && !Planted(Bug::kExpiredRenews)) {
    return NotRenewed{end.cause, {}, {}};  // over, and about to be processed
  }
  const Duration left = std::max(end.at - context.now, Duration{});
  if (lease.revoking) {
    return NotRenewed{Cause::kRevoking, left, lease.reason};
  }
  const Duration hold_max = PolicyOf(resource).hold_max;
  if (lease.frozen || (hold_max > Duration{} && lease.granted_at + hold_max < context.now)) {
    return NotRenewed{Cause::kHoldLimit, left, {}};
  }
  if (lease.provisional) {
    lease.provisional = false;
    Emit(context, resource, EventKind::kConfirmed, Cause::kNone, lease.tenant, lease.owner);
    if (lease.session != kNoSlot) {
      CancelLeaseTimer(context, slot);
      if (hold_max > Duration{}) {
        SetLeaseTimer(context, slot, lease.granted_at + hold_max);
      }
    }
  }
  if (lease.session == kNoSlot) {
    // Never shortens: an epoch's floor may reach further than now + ttl.
    lease.deadline = std::max(end.at, context.now + lease.ttl);
    lease.promise = lease.ttl;
    lease.renewed_at = context.now;
  }
  return Renewed{lease.ttl, EndOf(context.floors, resource).at - context.now};
}

Released Locks::Release(Context& context, NamespaceId id, const core::Release& command) {
  const Slot known = Find(id, command.resource);
  if (known == kNoSlot) {
    return Released{false, Cause::kNeverHeld};
  }
  const Slot slot = Settle(context, known);
  if (slot == kNoSlot) {
    return Released{false, Cause::kNeverHeld};
  }
  const Resource& resource = resources_[slot];
  const bool current =
      resource.held && (resource.lease.id == command.lease_id || Planted(Bug::kOldLeaseReleases));
  if (!current) {
    const Cause cause = HowItEnded(resource, command.lease_id);
    return Released{cause == Cause::kReleased, cause};
  }
  EndAndHandOver(context, slot, LeaseEnd{context.now, Cause::kReleased}, /*delay=*/false);
  return Released{true, Cause::kReleased};
}

Proclaimed Locks::Proclaim(Context& context, NamespaceId id, const core::Proclaim& command) {
  const Slot known = Find(id, command.resource);
  if (known == kNoSlot) {
    return Proclaimed{false, Cause::kNeverHeld};
  }
  const Slot slot = Settle(context, known);
  if (slot == kNoSlot || !resources_[slot].held || resources_[slot].lease.id != command.lease_id) {
    return Proclaimed{false, NotCurrent(id, command.resource, command.lease_id).cause};
  }
  Resource& resource = resources_[slot];
  resource.value = command.value;
  Emit(context, resource, EventKind::kProclaimed, Cause::kNone, resource.lease.tenant,
       resource.lease.owner);
  return Proclaimed{true, Cause::kNone};
}

std::string Locks::NextOwner(const Resource& resource) const {
  if (resource.queue == nullptr || resource.queue->attached.empty()) {
    return {};
  }
  return waiters_[resource.queue->attached.begin()->second].owner;
}

Broken Locks::Break(Context& context, NamespaceId id, const core::Break& command) {
  const Slot known = Find(id, command.resource);
  if (known == kNoSlot) {
    return Broken{BreakResult::kNotTaken, nullptr, {}};
  }
  const Slot slot = Settle(context, known);
  if (slot == kNoSlot || !resources_[slot].held) {
    return Broken{BreakResult::kNotTaken, nullptr, {}};
  }
  Resource& resource = resources_[slot];
  Broken broken{BreakResult::kWouldBreak,
                std::make_unique<HolderView>(ViewHolder(context.floors, resource, context.now)),
                NextOwner(resource)};
  if (command.now && PolicyOf(resource).protection != Guarantee::kFenced && !command.unsafe) {
    broken.result = BreakResult::kUnsafeRefused;
    return broken;
  }
  if (command.dry_run) {
    return broken;
  }
  resource.lease.reason = command.reason;
  if (command.now) {
    broken.result = BreakResult::kEndedNow;
    EndAndHandOver(context, slot, LeaseEnd{context.now, Cause::kBroken}, /*delay=*/false);
    return broken;
  }
  broken.result = BreakResult::kRevoking;
  Freeze(context, slot);
  resource.lease.revoking = true;
  Emit(context, resource, EventKind::kRevoking, Cause::kBroken, resource.lease.tenant,
       resource.lease.owner);
  context.out.events.back().reason = command.reason;
  return broken;
}

}  // namespace holdfast::core
