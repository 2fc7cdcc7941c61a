// Answers to queries about locks.
#include <algorithm>

#include "core/limits.h"
#include "core/locks.h"

namespace holdfast::core {

HolderView Locks::ViewHolder(const EpochFloors& floors, const Resource& resource,
                             Timestamp as_of) const {
  const Lease& lease = resource.lease;
  HolderView view;
  view.owner = lease.owner;
  view.principal = namespaces_.TenantAt(lease.tenant).principal;
  view.token = lease.token;
  view.lease_id = lease.id;
  view.held_for = as_of - lease.granted_at;
  view.left = std::max(EndOf(floors, resource).at - as_of, Duration{});
  view.since = lease.since;
  view.provisional = lease.provisional;
  view.revoking = lease.revoking;
  view.metadata = lease.metadata;
  if (lease.session != kNoSlot) {
    view.session = sessions_.At(lease.session).id;
  }
  return view;
}

ResourceView Locks::ViewShort(const EpochFloors& floors, const Resource& resource,
                              Timestamp as_of) const {
  ResourceView view;
  view.resource = resource.name;
  view.guarantee = PolicyOf(resource).protection;
  view.queue_length = resource.queue == nullptr ? 0 : resource.queue->all.size;
  if (resource.held) {
    const LeaseEnd end = EndOf(floors, resource);
    if (!IsOver(floors, resource, as_of)) {
      view.state = ResourceState::kTaken;
      view.holder = std::make_unique<HolderView>(ViewHolder(floors, resource, as_of));
      view.value = resource.value;
    } else if (const auto until = DelayAfter(resource, end, as_of); until.has_value()) {
      // Not processed yet, but nobody would be granted it either.
      view.state = ResourceState::kDelayed;
      view.delay_left = *until - as_of;
    }
  } else if (resource.delayed && !(resource.delay_until < as_of)) {
    view.state = ResourceState::kDelayed;
    view.delay_left = resource.delay_until - as_of;
  }
  return view;
}

ResourceView Locks::Describe(const EpochFloors& floors, NamespaceId id, const std::string& name,
                             Timestamp as_of) const {
  const Slot slot = Find(id, name);
  if (slot == kNoSlot) {
    ResourceView view;
    view.resource = name;
    view.guarantee = namespaces_.At(id).policy.protection;
    return view;
  }
  const Resource& resource = resources_[slot];
  ResourceView view = ViewShort(floors, resource, as_of);
  if (resource.queue != nullptr) {
    for (Slot waiter_slot = resource.queue->all.first;
         waiter_slot != kNoSlot && view.queue.size() < kWaitersShown;
         waiter_slot = waiters_[waiter_slot].in_queue.next) {
      const Waiter& waiter = waiters_[waiter_slot];
      view.queue.push_back(WaiterView{
          waiter.owner, namespaces_.TenantAt(waiter.tenant).principal, as_of - waiter.queued_at,
          std::max(waiter.deadline - as_of, Duration{}), !waiter.attached});
    }
  }
  for (std::uint64_t position = resource.last_transition;
       history_.Has(position) && view.transitions.size() < kTransitionsShown;
       position = history_.At(position).previous) {
    const Transition& transition = history_.At(position);
    view.transitions.push_back(TransitionView{
        transition.index, transition.at, transition.cause, transition.token, transition.owner,
        transition.reason == nullptr ? std::string() : *transition.reason});
  }
  return view;
}

// Resources without holder, delay or waiters are only remembered for their history; a list does not
// show them.
ListView Locks::List(const EpochFloors& floors, NamespaceId id, const core::List& query,
                     Timestamp as_of) const {
  ListView view;
  const std::size_t page =
      query.page_size == 0 ? 100 : std::min<std::size_t>(query.page_size, kListPageMax);
  const std::string& start = std::max(query.prefix, query.after);
  std::size_t seen = 0;
  for (auto at = ordered_.lower_bound(ResourceKeyView(id, start)); at != ordered_.end(); ++at) {
    const auto& [name_space, name] = at->first;
    if (name_space != id || name.compare(0, query.prefix.size(), query.prefix) != 0) {
      return view;
    }
    if (name == query.after) {
      continue;
    }
    // Bounds the work of one query; the page may be short, but never stops without `more`.
    if (view.items.size() == page || ++seen > 10 * kListPageMax) {
      view.more = true;
      view.last = std::prev(at)->first.second;
      return view;
    }
    ResourceView item = ViewShort(floors, resources_[at->second], as_of);
    if (item.state != ResourceState::kFree || item.queue_length > 0) {
      view.items.push_back(std::move(item));
    }
  }
  return view;
}

TokenView Locks::CheckToken(const EpochFloors& floors, NamespaceId id,
                            const core::CheckToken& query, Timestamp as_of) const {
  if (query.token == 0 || query.token > last_token_) {
    return TokenView{TokenVerdict::kNeverIssued};
  }
  const Slot slot = Find(id, query.resource);
  const bool current = slot != kNoSlot && resources_[slot].held &&
                       resources_[slot].lease.token == query.token &&
                       !IsOver(floors, resources_[slot], as_of);
  return TokenView{current ? TokenVerdict::kCurrent : TokenVerdict::kOld};
}

LeaderView Locks::Leader(const EpochFloors& floors, NamespaceId id, const std::string& name,
                         Timestamp as_of) const {
  LeaderView view;
  const Slot slot = Find(id, name);
  if (slot == kNoSlot || !resources_[slot].held || IsOver(floors, resources_[slot], as_of)) {
    return view;
  }
  const Resource& resource = resources_[slot];
  view.vacant = false;
  view.value = resource.value;
  view.token = resource.lease.token;
  view.owner = resource.lease.owner;
  view.since = resource.lease.since;
  view.left = std::max(EndOf(floors, resource).at - as_of, Duration{});
  return view;
}

Duration Locks::LongestTtl() const {
  Duration longest{};
  for (const auto& [key, slot] : ordered_) {
    if (resources_[slot].held) {
      longest = std::max(longest, resources_[slot].lease.ttl);
    }
  }
  return longest;
}

Duration Locks::TimeLeft(const EpochFloors& floors, NamespaceId id, std::string_view name,
                         const Id128& lease_id, Timestamp as_of) const {
  const Slot slot = Find(id, name);
  if (slot == kNoSlot || !resources_[slot].held || resources_[slot].lease.id != lease_id) {
    return Duration{};
  }
  return std::max(EndOf(floors, resources_[slot]).at - as_of, Duration{});
}

}  // namespace holdfast::core
