#include "core/sessions.h"

#include <algorithm>

#include "core/limits.h"

namespace holdfast::core {

Slot Sessions::Find(NamespaceId id, const Id128& session_id) const {
  const auto found = by_id_.find(session_id);
  if (found == by_id_.end() ||
      namespaces_.TenantAt(sessions_[found->second].tenant).name_space != id) {
    return kNoSlot;
  }
  return found->second;
}

Outcome Sessions::Repeat(const Context& context, const Record& record,
                         std::uint64_t fingerprint) const {
  if (record.fingerprint != fingerprint) {
    return SessionRefused{SessionRefusal::kRequestIdReused, {}};
  }
  if (record.kind != RecordKind::kSession) {
    return SessionRefused{record.code == RefusalCode::kGrantsBlocked
                              ? SessionRefusal::kGrantsBlocked
                              : SessionRefusal::kLimit,
                          {}};
  }
  const auto found = by_id_.find(record.capability);
  if (found == by_id_.end() || IsOver(context.floors, sessions_[found->second], context.now)) {
    return SessionRefused{SessionRefusal::kEnded, {}};
  }
  const Session& session = sessions_[found->second];
  return SessionOpened{session.id, session.ttl, End(context.floors, session) - context.now};
}

Outcome Sessions::Open(Context& context, NamespaceId id, const std::string& principal,
                       const OpenSession& command, bool blocked) {
  const Slot tenant = namespaces_.TenantOf(id, principal);
  if (tenant == kNoSlot) {
    return SessionRefused{SessionRefusal::kLimit, "tenants"};
  }
  requests_.NoteClient(context, tenant, command.client);
  const std::uint64_t fingerprint = FingerprintOf(command);
  const Slot known = requests_.Find(tenant, command.request_id);
  if (known != kNoSlot) {
    return Repeat(context, requests_.At(known), fingerprint);
  }
  if (requests_.IsBelowWatermark(tenant, command.client)) {
    return SessionRefused{SessionRefusal::kEnded, {}};
  }
  const Policy& policy = namespaces_.At(id).policy;
  if (!requests_.HasRoom(tenant, command.request_id)) {
    namespaces_.ForgetIfIdle(tenant);
    return SessionRefused{
        SessionRefusal::kLimit,
        "request_bytes_per_tenant=" + std::to_string(policy.request_bytes_per_tenant)};
  }
  const Slot record_slot = requests_.Add(context, tenant, command.request_id, command.client);
  Record& record = requests_.At(record_slot);
  record.fingerprint = fingerprint;
  record.kind = RecordKind::kRefused;
  if (blocked) {
    record.code = RefusalCode::kGrantsBlocked;
    return SessionRefused{SessionRefusal::kGrantsBlocked, {}};
  }
  record.code = RefusalCode::kTenantLimit;
  if (namespaces_.TenantAt(tenant).sessions >= policy.sessions_per_tenant) {
    return SessionRefused{SessionRefusal::kLimit,
                          "sessions_per_tenant=" + std::to_string(policy.sessions_per_tenant)};
  }
  if (live_ >= kSessionsMax) {
    return SessionRefused{SessionRefusal::kLimit, "sessions=" + std::to_string(kSessionsMax)};
  }
  record.kind = RecordKind::kSession;
  record.code = RefusalCode::kNone;
  record.capability = command.session_id;
  return Begin(context, id, tenant, command);
}

SessionOpened Sessions::Begin(Context& context, NamespaceId id, Slot tenant,
                              const OpenSession& command) {
  const Policy& policy = namespaces_.At(id).policy;
  const Slot slot = sessions_.Add();
  Session& session = sessions_[slot];
  session.id = command.session_id;
  session.number = ++last_number_;
  session.tenant = tenant;
  session.owner = command.owner;
  session.ttl = command.ttl == Duration{} ? policy.ttl_default
                                          : std::clamp(command.ttl, policy.ttl_min, policy.ttl_max);
  session.renewed_at = context.now;
  session.deadline = context.now + session.ttl;
  session.timer_at = session.deadline;
  by_id_.emplace(session.id, slot);
  by_number_.emplace(session.number, slot);
  ++live_;
  ++namespaces_.TenantAt(tenant).sessions;
  ++namespaces_.At(id).sessions;
  namespaces_.Reference(tenant);
  namespaces_.Keep(id);
  context.timers.Set(Timer{session.timer_at, TimerKind::kSession, session.number, slot});
  context.out.events.push_back(Event{EventKind::kSessionOpened,
                                     Cause::kNone,
                                     0,
                                     namespaces_.At(id).name,
                                     {},
                                     namespaces_.TenantAt(tenant).principal,
                                     session.owner,
                                     session.id,
                                     {},
                                     {}});
  return SessionOpened{session.id, session.ttl, session.ttl};
}

SessionKept Sessions::KeepAlive(Context& context, NamespaceId id, const Command& command) {
  const Slot slot = Find(id, std::get<core::KeepAlive>(command.body).session_id);
  if (slot == kNoSlot) {
    return SessionKept{false, {}, Cause::kNeverHeld, 0};
  }
  Session& session = sessions_[slot];
  if (IsOver(context.floors, session, context.previous)) {
    return SessionKept{false, {}, EndCause(session), session.revocations};
  }
  // Never shortens: an epoch's floor may reach further than now + ttl.
  session.deadline = std::max(End(context.floors, session), context.now + session.ttl);
  session.renewed_at = context.now;
  return SessionKept{true, session.deadline - context.now, Cause::kNone, session.revocations};
}

SessionClosed Sessions::Close(Context& context, NamespaceId id, const CloseSession& command) {
  const Slot slot = Find(id, command.session_id);
  if (slot == kNoSlot) {
    return SessionClosed{false, Cause::kNeverHeld};
  }
  Session& session = sessions_[slot];
  if (session.ended == Cause::kNone) {
    const Timestamp end = End(context.floors, session);
    const bool expired = end < context.now;
    Finish(context, slot, expired ? Cause::kSessionExpired : Cause::kSessionClosed,
           expired ? end : context.now);
  }
  return SessionClosed{session.ended == Cause::kSessionClosed, session.ended};
}

void Sessions::Finish(Context& context, Slot slot, Cause cause, Timestamp at) {
  Session& session = sessions_[slot];
  session.ended = cause;
  session.ended_at = at;
  context.timers.Cancel(session.timer_at, TimerKind::kSession, session.number);
  const Tenant& tenant = namespaces_.TenantAt(session.tenant);
  --namespaces_.TenantAt(session.tenant).sessions;
  --namespaces_.At(tenant.name_space).sessions;
  --live_;
  draining_.push_back(slot);
  context.out.events.push_back(Event{EventKind::kSessionEnded,
                                     cause,
                                     0,
                                     namespaces_.At(tenant.name_space).name,
                                     {},
                                     tenant.principal,
                                     session.owner,
                                     session.id,
                                     {},
                                     {}});
}

void Sessions::OnTimer(Context& context, Slot slot) {
  Session& session = sessions_[slot];
  const Timestamp end = End(context.floors, session);
  if (end > session.timer_at) {
    session.timer_at = end;  // renewed since the timer was set: its turn comes at its own end
    context.timers.Set(Timer{end, TimerKind::kSession, session.number, slot});
    return;
  }
  Finish(context, slot, Cause::kSessionExpired, end);
}

Slot Sessions::FirstToDrain() {
  while (!draining_.empty()) {
    const Slot slot = draining_.front();
    if (!sessions_[slot].holds.empty() || !sessions_[slot].waits.empty()) {
      return slot;
    }
    draining_.pop_front();
    ended_.push_back(slot);
    if (ended_.size() > kEndedSessionsMax) {
      Bury(ended_.front());
      ended_.pop_front();
    }
  }
  return kNoSlot;
}

void Sessions::Bury(Slot slot) {
  const Session& session = sessions_[slot];
  const Slot tenant = session.tenant;
  const NamespaceId id = namespaces_.TenantAt(tenant).name_space;
  by_id_.erase(session.id);
  by_number_.erase(session.number);
  sessions_.Free(slot);
  namespaces_.Unreference(tenant);
  namespaces_.Drop(id);
}

SessionView Sessions::View(const EpochFloors& floors, NamespaceId id, const Id128& session_id,
                           Timestamp as_of) const {
  SessionView view;
  const Slot slot = Find(id, session_id);
  if (slot == kNoSlot) {
    view.cause = Cause::kNeverHeld;
    return view;
  }
  const Session& session = sessions_[slot];
  view.alive = !IsOver(floors, session, as_of);
  view.owner = session.owner;
  view.ttl = session.ttl;
  view.remaining = view.alive ? End(floors, session) - as_of : Duration{};
  view.holds = session.holds.size;
  view.waits = session.waits.size;
  view.cause = view.alive ? Cause::kNone : EndCause(session);
  return view;
}

Duration Sessions::LongestTtl() const {
  Duration longest{};
  for (const auto& [number, slot] : by_number_) {
    if (sessions_[slot].ended == Cause::kNone) {
      longest = std::max(longest, sessions_[slot].ttl);
    }
  }
  return longest;
}

Slot Sessions::ByNumber(std::uint64_t number) const {
  const auto found = by_number_.find(number);
  return found == by_number_.end() ? kNoSlot : found->second;
}

void Sessions::Save(Saver& saver) const {
  saver(last_number_, static_cast<std::uint64_t>(by_number_.size()));
  for (const auto& [number, slot] : by_number_) {
    const Session& session = sessions_[slot];
    const Tenant& tenant = namespaces_.TenantAt(session.tenant);
    saver(session.id, number, tenant.name_space, tenant.principal, session.owner, session.ttl,
          session.renewed_at, session.deadline, session.timer_at, session.ended, session.ended_at,
          session.revocations);
  }
  for (const std::deque<Slot>* list : {&draining_, &ended_}) {
    saver(static_cast<std::uint64_t>(list->size()));
    for (const Slot slot : *list) {
      saver(sessions_[slot].number);
    }
  }
}

void Sessions::Load(ArchiveReader& reader, Timers& timers) {
  std::uint64_t count = 0;
  reader(last_number_, count);
  for (std::uint64_t i = 0; i < count && reader.ok(); ++i) {
    const Slot slot = sessions_.Add();
    Session& session = sessions_[slot];
    NamespaceId id = 0;
    std::string principal;
    reader(session.id, session.number, id, principal, session.owner, session.ttl,
           session.renewed_at, session.deadline, session.timer_at, session.ended, session.ended_at,
           session.revocations);
    if (!namespaces_.Exists(id)) {
      reader.Fail();
      return;
    }
    session.tenant = namespaces_.TenantOf(id, principal);
    namespaces_.Reference(session.tenant);
    namespaces_.Keep(id);
    by_id_.emplace(session.id, slot);
    by_number_.emplace(session.number, slot);
    if (session.ended == Cause::kNone) {
      ++live_;
      ++namespaces_.TenantAt(session.tenant).sessions;
      ++namespaces_.At(id).sessions;
      timers.Set(Timer{session.timer_at, TimerKind::kSession, session.number, slot});
    }
  }
  for (std::deque<Slot>* list : {&draining_, &ended_}) {
    reader(count);
    for (std::uint64_t i = 0; i < count && reader.ok(); ++i) {
      std::uint64_t number = 0;
      reader(number);
      const Slot slot = ByNumber(number);
      if (slot == kNoSlot) {
        reader.Fail();
        return;
      }
      list->push_back(slot);
    }
  }
}

std::string Sessions::FindInconsistency(const Timers& timers, const EpochFloors& floors) const {
  std::size_t live = 0;
  for (const auto& [number, slot] : by_number_) {
    const Session& session = sessions_[slot];
    if (session.ended != Cause::kNone) {
      continue;
    }
    ++live;
    if (!timers.Has(session.timer_at, TimerKind::kSession, number) ||
        End(floors, session) < session.timer_at) {
      return "a live session without a timer at or before its end";
    }
  }
  return live == live_ ? std::string() : "the count of live sessions is wrong";
}

}  // namespace holdfast::core
