// The fields of outcomes, queries and views, in the order in which nodes send them to each other.
// Append only.
#pragma once

#include <memory>

#include "base/archive.h"
#include "codec/command_archive.h"
#include "core/outcome.h"
#include "core/view.h"

namespace holdfast::core {

// Names are checked by whoever shows them; here only the range of what a byte can be.
constexpr bool EnumInRange(CancelResult result) {
  return result >= CancelResult::kBeforeArrival && result <= CancelResult::kMemoryFull;
}
constexpr bool EnumInRange(BreakResult result) {
  return result >= BreakResult::kRevoking && result <= BreakResult::kUnsafeRefused;
}
constexpr bool EnumInRange(SessionRefusal reason) {
  return reason >= SessionRefusal::kLimit && reason <= SessionRefusal::kGrantsBlocked;
}
constexpr bool EnumInRange(NamespaceResult result) {
  return result >= NamespaceResult::kOk && result <= NamespaceResult::kLimit;
}
constexpr bool EnumInRange(ResourceState state) {
  return state >= ResourceState::kFree && state <= ResourceState::kDelayed;
}
constexpr bool EnumInRange(TokenVerdict verdict) {
  return verdict >= TokenVerdict::kCurrent && verdict <= TokenVerdict::kNeverIssued;
}

template <typename A>
void Archive(A& a, HolderView& v) {
  a(v.owner, v.principal, v.token, v.lease_id, v.held_for, v.left, v.since, v.provisional,
    v.revoking, v.session, v.metadata);
}

template <typename A>
void ArchiveHolder(A& a, std::unique_ptr<HolderView>& holder) {
  bool there = holder != nullptr;
  a(there);
  if (there) {
    if constexpr (A::kReading) {
      holder = std::make_unique<HolderView>();
    }
    a(*holder);
  }
}

template <typename A>
void Archive(A& /*a*/, Done& /*o*/) {}
template <typename A>
void Archive(A& a, Granted& o) {
  a(o.lease_id, o.token, o.ttl, o.remaining, o.provisional, o.guarantee, o.expires_at);
}
template <typename A>
void Archive(A& a, Refused& o) {
  a(o.code, o.cause, o.queue_length, o.retry_after, o.limit);
  ArchiveHolder(a, o.holder);
}
template <typename A>
void Archive(A& a, Queued& o) {
  a(o.waiter, o.attachment, o.queue_length);
}
template <typename A>
void Archive(A& a, Renewed& o) {
  a(o.ttl, o.remaining);
}
template <typename A>
void Archive(A& a, NotRenewed& o) {
  a(o.cause, o.remaining, o.reason);
}
template <typename A>
void Archive(A& a, Released& o) {
  a(o.released, o.cause);
}
template <typename A>
void Archive(A& a, Cancelled& o) {
  a(o.result);
}
template <typename A>
void Archive(A& a, Broken& o) {
  a(o.result, o.next_owner);
  ArchiveHolder(a, o.holder);
}
template <typename A>
void Archive(A& a, Proclaimed& o) {
  a(o.proclaimed, o.cause);
}
template <typename A>
void Archive(A& a, SessionOpened& o) {
  a(o.session_id, o.ttl, o.remaining);
}
template <typename A>
void Archive(A& a, SessionRefused& o) {
  a(o.reason, o.limit);
}
template <typename A>
void Archive(A& a, SessionKept& o) {
  a(o.alive, o.remaining, o.cause, o.revocations);
}
template <typename A>
void Archive(A& a, SessionClosed& o) {
  a(o.closed, o.cause);
}
template <typename A>
void Archive(A& a, NamespaceChanged& o) {
  a(o.result, o.policy);
}
template <typename A>
void Archive(A& a, FeatureLevelSet& o) {
  a(o.accepted, o.level);
}
template <typename A>
void Archive(A& /*a*/, NoSuchNamespace& /*o*/) {}

template <typename A>
void Archive(A& a, Describe& q) {
  a(q.name_space, q.resource);
}
template <typename A>
void Archive(A& a, List& q) {
  a(q.name_space, q.prefix, q.page_size, q.after);
}
template <typename A>
void Archive(A& a, CheckToken& q) {
  a(q.name_space, q.resource, q.token);
}
template <typename A>
void Archive(A& a, Leader& q) {
  a(q.name_space, q.resource);
}
template <typename A>
void Archive(A& a, DescribeSession& q) {
  a(q.name_space, q.session_id);
}
template <typename A>
void Archive(A& a, GetNamespace& q) {
  a(q.name);
}
template <typename A>
void Archive(A& /*a*/, ListNamespaces& /*q*/) {}
template <typename A>
void Archive(A& /*a*/, GetCounts& /*q*/) {}

template <typename A>
void Archive(A& a, WaiterView& v) {
  a(v.owner, v.principal, v.waiting_for, v.wait_left, v.detached);
}
template <typename A>
void Archive(A& a, TransitionView& v) {
  a(v.index, v.at, v.cause, v.token, v.owner, v.reason);
}
template <typename A>
void Archive(A& a, ResourceView& v) {
  a(v.resource, v.state, v.delay_left, v.queue_length, v.queue, v.transitions, v.guarantee,
    v.value);
  ArchiveHolder(a, v.holder);
}
template <typename A>
void Archive(A& a, ListView& v) {
  a(v.items, v.more, v.last);
}
template <typename A>
void Archive(A& a, TokenView& v) {
  a(v.verdict);
}
template <typename A>
void Archive(A& a, LeaderView& v) {
  a(v.vacant, v.value, v.token, v.owner, v.since, v.left);
}
template <typename A>
void Archive(A& a, SessionView& v) {
  a(v.alive, v.owner, v.ttl, v.remaining, v.holds, v.waits, v.cause);
}
template <typename A>
void Archive(A& a, NamespaceView& v) {
  a(v.result, v.name, v.policy);
}
template <typename A>
void Archive(A& a, NamespacesView& v) {
  a(v.namespaces);
}
template <typename A>
void Archive(A& a, CountsView& v) {
  a(v.resources, v.holds, v.waiters, v.sessions, v.request_ids, v.last_token, v.time,
    v.feature_level, v.expiry_lag, v.grants_blocked_for);
}

}  // namespace holdfast::core
