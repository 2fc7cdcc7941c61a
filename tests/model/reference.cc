#include "tests/model/reference.h"

#include <algorithm>

namespace holdfast::model {

using core::Cause;
using core::EventKind;
using core::RefusalCode;

namespace {

bool IsRenew(const core::Command& command) {
  return std::holds_alternative<core::Renew>(command.body);
}
bool IsKeepAlive(const core::Command& command) {
  return std::holds_alternative<core::KeepAlive>(command.body);
}

}  // namespace

void Reference::Apply(const core::Batch& batch, core::Applied& out) {
  out.Clear();
  out.outcomes.resize(batch.commands.size());
  out_ = &out;
  previous_ = now_;
  now_ = batch.time;
  if (!batch.commands.empty()) {
    if (const auto* start = std::get_if<core::EpochStart>(&batch.commands.front().body);
        start != nullptr) {
      starts_.push_back(Start{now_, start->grace});
      for (Waiter& waiter : waiters_) {
        DetachOne(waiter);
      }
    }
  }
  for (std::size_t i = 0; i < batch.commands.size(); ++i) {
    if (IsKeepAlive(batch.commands[i])) {
      out.outcomes[i] = Run(batch.commands[i]);
    }
  }
  for (std::size_t i = 0; i < batch.commands.size(); ++i) {
    if (IsRenew(batch.commands[i])) {
      out.outcomes[i] = Run(batch.commands[i]);
    }
  }
  RunDue();
  for (std::size_t i = 0; i < batch.commands.size(); ++i) {
    if (!IsKeepAlive(batch.commands[i]) && !IsRenew(batch.commands[i])) {
      out.outcomes[i] = Run(batch.commands[i]);
    }
  }
  DrainSessions();
}

// An epoch that starts while the promise is alive gives it until min(start, deadline) + grace.
Timestamp Reference::Floored(Timestamp deadline, Timestamp renewed_at, Duration promise) const {
  Timestamp end = deadline;
  for (const Start& start : starts_) {
    if (renewed_at <= start.at && start.at <= end) {
      end = std::max(end, std::min(start.at, deadline) + std::min(promise, start.grace));
    }
  }
  return end;
}

Timestamp Reference::EndOf(const Session& session) const {
  return session.ended != Cause::kNone ? session.ended_at
                                       : Floored(session.deadline, session.renewed_at, session.ttl);
}

bool Reference::OnEndedSession(const Lease& lease) const {
  return !IsZero(lease.session) && SessionOf(lease).ended != Cause::kNone;
}

Reference::End Reference::EndOf(const Lease& lease) const {
  const Timestamp own = Floored(lease.deadline, lease.renewed_at, lease.promise);
  const Cause cause = lease.revoking      ? Cause::kBroken
                      : lease.provisional ? Cause::kUnconfirmed
                                          : Cause::kExpired;
  if (IsZero(lease.session)) {
    return End{own, cause};
  }
  const Session& session = SessionOf(lease);
  if (session.ended != Cause::kNone) {
    return End{session.ended_at, session.ended};
  }
  if ((lease.provisional || lease.frozen) && own < EndOf(session)) {
    return End{own, cause};
  }
  return End{EndOf(session), Cause::kSessionExpired};
}

void Reference::RunDue() {
  for (auto due = FirstDue(); due.has_value(); due = FirstDue()) {
    RunDue(due->first, due->second);
  }
  Forget();
  DrainSessions();
}

// The first that is due, in order of deadline, kind and number.
std::optional<std::pair<int, std::uint64_t>> Reference::FirstDue() const {
  using Order = std::tuple<Timestamp, int, std::uint64_t>;
  std::optional<Order> first;
  const auto consider = [&](Timestamp at, int kind, std::uint64_t number) {
    const Order order(at, kind, number);
    if (at < now_ && (!first.has_value() || order < *first)) {
      first = order;
    }
  };
  for (const Lease& lease : leases_) {
    if (OnEndedSession(lease)) {
      continue;
    }
    if (IsZero(lease.session) || lease.provisional || lease.frozen) {
      consider(Floored(lease.deadline, lease.renewed_at, lease.promise), 0, lease.token);
    } else if (lease.limit_at.has_value()) {
      consider(*lease.limit_at, 0, lease.token);
    }
  }
  for (const Session& session : sessions_) {
    if (session.ended == Cause::kNone) {
      consider(EndOf(session), 1, session.number);
    }
  }
  for (const Waiter& waiter : waiters_) {
    consider(waiter.deadline, 2, waiter.id);
    if (waiter.detach_at.has_value()) {
      consider(*waiter.detach_at, 3, waiter.id);
    }
  }
  for (const Delay& delay : delays_) {
    consider(delay.until, 4, delay.token);
  }
  if (!first.has_value()) {
    return std::nullopt;
  }
  return std::pair(std::get<1>(*first), std::get<2>(*first));
}

void Reference::RunDue(int kind, std::uint64_t number) {
  if (kind == 0) {
    Lease& lease = *std::find_if(leases_.begin(), leases_.end(),
                                 [&](const Lease& l) { return l.token == number; });
    if (IsZero(lease.session) || lease.provisional || lease.frozen) {
      EndLease(Key(lease.at), EndOf(lease), true);
    } else {
      RunLimit(lease);
    }
  } else if (kind == 1) {
    Session& session = *std::find_if(sessions_.begin(), sessions_.end(),
                                     [&](const Session& s) { return s.number == number; });
    EndSession(session, Cause::kSessionExpired, EndOf(session));
  } else if (kind == 2) {
    Leave(number, RefusalCode::kWaitTimeout, Cause::kWaitTimedOut);
  } else if (kind == 3) {
    Leave(number, RefusalCode::kCancelled, Cause::kDetachedTooLong);
  } else {
    const auto delay = std::find_if(delays_.begin(), delays_.end(),
                                    [&](const Delay& d) { return d.token == number; });
    const Key at = delay->at;
    delays_.erase(delay);
    HandOver(at);
  }
}

void Reference::RunLimit(Lease& lease) {
  const Duration hold_max = PolicyOf(lease.at).hold_max;
  lease.limit_at.reset();
  if (hold_max == Duration{}) {
    return;
  }
  if (lease.granted_at + hold_max < now_) {
    Freeze(lease);
  } else {
    lease.limit_at = lease.granted_at + hold_max;
  }
}

void Reference::Forget() {
  std::erase_if(requests_,
                [&](const Request& r) { return r.fate != Fate::kWaiting && r.expires_at < now_; });
  std::erase_if(clients_, [&](const Client& client) {
    if (!(client.expires_at < now_)) {
      return false;
    }
    for (Request& request : requests_) {
      if (request.tenant == client.tenant && request.client == client.id) {
        request.client.clear();
      }
    }
    return true;
  });
}

void Reference::DrainSessions() {
  for (Session* session : draining_) {
    const auto on_session = [&](const Lease& lease) { return lease.session == session->id; };
    for (auto at = leases_.begin();
         (at = std::find_if(leases_.begin(), leases_.end(), on_session)) != leases_.end();) {
      EndLease(Key(at->at), End{session->ended_at, session->ended}, true);
    }
    const auto waits = [&](const Waiter& waiter) { return waiter.session == session->id; };
    for (auto at = waiters_.begin();
         (at = std::find_if(waiters_.begin(), waiters_.end(), waits)) != waiters_.end();) {
      Leave(at->id, RefusalCode::kSessionEnded, session->ended);
    }
  }
  draining_.clear();
}

void Reference::EndSession(Session& session, Cause cause, Timestamp at) {
  session.ended = cause;
  session.ended_at = at;
  draining_.push_back(&session);
  EmitSession(EventKind::kSessionEnded, cause, session);
}

void Reference::Settle(const Key& at) {
  if (const Lease* lease = LeaseAt(at);
      lease != nullptr && (EndOf(*lease).at < now_ || OnEndedSession(*lease))) {
    EndLease(at, EndOf(*lease), true);
  }
}

core::Granted Reference::Describe(const Lease& lease) const {
  core::Granted granted;
  granted.lease_id = lease.id;
  granted.token = lease.token;
  granted.ttl = lease.ttl;
  granted.remaining = EndOf(lease).at - now_;
  granted.provisional = lease.provisional;
  granted.guarantee = PolicyOf(lease.at).protection;
  return granted;
}

core::Granted Reference::Grant(const Waiter& claim, Cause cause) {
  Lease lease;
  lease.at = claim.at;
  lease.tenant = claim.tenant;
  lease.id = claim.lease_id;
  lease.token = ++last_token_;
  lease.owner = claim.owner;
  lease.session = claim.session;
  lease.ttl = claim.ttl;
  lease.provisional = cause == Cause::kHandedOver;
  lease.promise = lease.provisional ? std::min(claim.ttl, Seconds(5)) : claim.ttl;
  lease.granted_at = now_;
  lease.renewed_at = now_;
  lease.deadline = now_ + lease.promise;
  lease.value = claim.value;
  const Duration hold_max = PolicyOf(claim.at).hold_max;
  if (!lease.provisional && !IsZero(lease.session) && hold_max > Duration{}) {
    lease.limit_at = now_ + hold_max;
  }
  leases_.push_back(lease);
  history_.push_back(Transition{lease.at, lease.id, cause, lease.token, lease.owner, {}});
  Emit(EventKind::kGranted, cause, lease);
  return Describe(leases_.back());
}

void Reference::EndLease(const Key& at, End end, bool delay) {
  const auto found = std::find_if(leases_.begin(), leases_.end(),
                                  [&](const Lease& lease) { return lease.at == at; });
  const Lease lease = *found;
  leases_.erase(found);
  const bool expected = end.cause == Cause::kReleased || end.cause == Cause::kCancelled ||
                        end.cause == Cause::kSessionClosed || end.cause == Cause::kSessionExpired;
  if (!IsZero(lease.session) && !expected) {
    ++SessionOf(lease.at.first, lease.session)->revocations;
  }
  history_.push_back(Transition{at, lease.id, end.cause, lease.token, lease.owner, lease.reason});
  Emit(EventKind::kEnded, end.cause, lease);
  out_->events.back().reason = lease.reason;
  const bool vanished = end.cause == Cause::kExpired || end.cause == Cause::kSessionExpired ||
                        end.cause == Cause::kBroken;
  const Timestamp until = end.at + PolicyOf(at).lock_delay;
  if (delay && vanished && until > end.at && until >= now_) {
    delays_.push_back(Delay{at, until, lease.token});
    return;
  }
  HandOver(at);
}

void Reference::HandOver(const Key& at) {
  for (auto next = waiters_.begin(); next != waiters_.end();) {
    const Waiter waiter = *next++;
    if (waiter.at != at || waiter.detach_at.has_value()) {
      continue;
    }
    if (LeaveIfSessionOver(waiter.id)) {
      continue;
    }
    if (waiter.deadline < now_) {
      Leave(waiter.id, RefusalCode::kWaitTimeout, Cause::kWaitTimedOut);
    } else if (HoldsOf(waiter.tenant) >= PolicyOf(at).holds_per_tenant) {
      Leave(waiter.id, RefusalCode::kTenantLimit, Cause::kNone);
    } else {
      const core::Granted granted = Grant(waiter, Cause::kHandedOver);
      Request& request = *RequestOf(waiter.tenant, waiter.request_id);
      request.fate = Fate::kGranted;
      request.capability = granted.lease_id;
      request.expires_at = now_ + PolicyOf(at).request_memory;
      out_->resolutions.push_back(core::Resolution{waiter.id, waiter.attachment, granted});
      std::erase_if(waiters_, [&](const Waiter& w) { return w.id == waiter.id; });
      return;
    }
  }
}

void Reference::Freeze(Lease& lease) {
  lease.limit_at.reset();
  if (IsZero(lease.session) || lease.frozen) {
    return;
  }
  lease.frozen = true;
  ++SessionOf(lease.at.first, lease.session)->revocations;
  if (!lease.provisional) {
    const Session& session = SessionOf(lease);
    lease.deadline = session.deadline;
    lease.renewed_at = session.renewed_at;
    lease.promise = session.ttl;
  }
}

bool Reference::LeaveIfSessionOver(core::WaiterId id) {
  const Waiter& waiter = *WaiterOf(id);
  const Session* session = SessionOf(waiter.at.first, waiter.session);
  if (session == nullptr || !IsOver(*session)) {
    return false;
  }
  Leave(id, RefusalCode::kSessionEnded,
        session->ended != Cause::kNone ? session->ended : Cause::kSessionExpired);
  return true;
}

void Reference::Leave(core::WaiterId id, RefusalCode code, Cause cause) {
  const Waiter waiter = *WaiterOf(id);
  core::Refused refused = Refusal(code, waiter.at, true);
  refused.cause = cause;
  --refused.queue_length;
  Request& request = *RequestOf(waiter.tenant, waiter.request_id);
  request.fate = code == RefusalCode::kCancelled ? Fate::kCancelled : Fate::kRefused;
  request.code = code;
  request.expires_at = now_ + PolicyOf(waiter.at).request_memory;
  EmitWaiter(EventKind::kWaiterLeft, cause, waiter);
  out_->resolutions.push_back(core::Resolution{id, waiter.attachment, std::move(refused)});
  std::erase_if(waiters_, [&](const Waiter& w) { return w.id == id; });
}

// What a refusal tells about the present.
core::Refused Reference::Refusal(RefusalCode code, const Key& at, bool with_resource) const {
  core::Refused refused;
  refused.code = code;
  if (code == RefusalCode::kGrantsBlocked && Blocked()) {
    refused.retry_after = blocked_until_ - now_;
  }
  if (!with_resource) {
    return refused;
  }
  refused.queue_length = static_cast<std::uint32_t>(QueueLength(at));
  const Duration before = refused.retry_after.value_or(Duration{});
  if (const Lease* lease = LeaseAt(at); lease != nullptr) {
    refused.holder = std::make_unique<core::HolderView>(HolderOf(*lease));
    refused.retry_after = std::max(before, refused.holder->left);
  } else if (const Delay* delay = DelayAt(at); delay != nullptr) {
    refused.retry_after = std::max({before, delay->until - now_, Duration{}});
  }
  if (code == RefusalCode::kQueueFull) {
    refused.limit = "waiters_per_resource=" + std::to_string(PolicyOf(at).waiters_per_resource);
  } else if (code == RefusalCode::kTenantLimit) {
    refused.limit = "holds_per_tenant=" + std::to_string(PolicyOf(at).holds_per_tenant);
  }
  return refused;
}

core::HolderView Reference::HolderOf(const Lease& lease) const {
  core::HolderView view;
  view.owner = lease.owner;
  view.principal = lease.tenant.second;
  view.token = lease.token;
  view.lease_id = lease.id;
  view.left = std::max(EndOf(lease).at - now_, Duration{});
  view.provisional = lease.provisional;
  view.revoking = lease.revoking;
  return view;
}

core::ResourceView Reference::Describe(const std::string& name_space,
                                       const std::string& resource) const {
  const Key at(name_space, resource);
  core::ResourceView view;
  view.resource = resource;
  view.guarantee = PolicyOf(at).protection;
  view.queue_length = static_cast<std::uint32_t>(QueueLength(at));
  if (const Lease* lease = LeaseAt(at); lease != nullptr) {
    view.state = core::ResourceState::kTaken;
    view.holder = std::make_unique<core::HolderView>(HolderOf(*lease));
    view.value = lease->value;
  } else if (const Delay* delay = DelayAt(at); delay != nullptr) {
    view.state = core::ResourceState::kDelayed;
    view.delay_left = delay->until - now_;
  }
  for (const Waiter& waiter : waiters_) {
    if (waiter.at == at) {
      view.queue.push_back(core::WaiterView{
          waiter.owner, waiter.tenant.second, now_ - waiter.queued_at,
          std::max(waiter.deadline - now_, Duration{}), waiter.detach_at.has_value()});
    }
  }
  for (auto past = history_.rbegin(); past != history_.rend() && view.transitions.size() < 16;
       ++past) {
    if (past->at == at) {
      view.transitions.push_back(
          core::TransitionView{0, {}, past->cause, past->token, past->owner, past->reason});
    }
  }
  return view;
}

core::SessionView Reference::DescribeSession(const std::string& name_space, const Id128& id) const {
  core::SessionView view;
  const Session* session = const_cast<Reference*>(this)->SessionOf(name_space, id);
  if (session == nullptr) {
    view.cause = Cause::kNeverHeld;
    return view;
  }
  view.alive = !IsOver(*session);
  view.remaining = view.alive ? EndOf(*session) - now_ : Duration{};
  view.cause = session->ended;
  for (const Lease& lease : leases_) {
    view.holds += lease.session == id ? 1 : 0;
  }
  for (const Waiter& waiter : waiters_) {
    view.waits += waiter.session == id ? 1 : 0;
  }
  return view;
}

core::CountsView Reference::Counts() const {
  core::CountsView counts;
  counts.holds = leases_.size();
  counts.waiters = waiters_.size();
  for (const Session& session : sessions_) {
    counts.sessions += session.ended == Cause::kNone ? 1 : 0;
  }
  counts.request_ids = requests_.size();
  counts.last_token = last_token_;
  return counts;
}

void Reference::Emit(EventKind kind, Cause cause, const Lease& lease) {
  core::Event event{kind,
                    cause,
                    lease.token,
                    lease.at.first,
                    lease.at.second,
                    lease.tenant.second,
                    lease.owner,
                    lease.id,
                    lease.value,
                    {}};
  out_->events.push_back(std::move(event));
}

void Reference::EmitWaiter(EventKind kind, Cause cause, const Waiter& waiter) {
  core::Event event{
      kind, cause, 0, waiter.at.first, waiter.at.second, waiter.tenant.second, waiter.owner,
      {},   {},    {}};
  out_->events.push_back(std::move(event));
}

void Reference::EmitSession(EventKind kind, Cause cause, const Session& session) {
  core::Event event{
      kind,       cause, 0, session.tenant.first, {}, session.tenant.second, session.owner,
      session.id, {},    {}};
  out_->events.push_back(std::move(event));
}

}  // namespace holdfast::model
