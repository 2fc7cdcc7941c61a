#include "check/history_checker.h"

#include <algorithm>
#include <utility>

#include "core/limits.h"

namespace holdfast::check {
namespace {

bool IsRenewal(const core::Command& command) {
  return std::holds_alternative<core::Renew>(command.body) ||
         std::holds_alternative<core::KeepAlive>(command.body);
}

std::string Named(const std::pair<std::string, std::string>& key) {
  return key.first + "/" + key.second;
}

}  // namespace

HistoryChecker::HistoryChecker() {
  policies_["default"] = core::Policy{};
}

void HistoryChecker::Fail(const std::string& rule) {
  if (violation_.empty()) {
    violation_ = rule + " (batch " + std::to_string(index_) + ")";
  }
}

std::string HistoryChecker::Observe(const core::Batch& batch, const core::Applied& applied,
                                    bool backlog) {
  Begin(batch, applied);
  for (std::size_t i = 0; i < batch.commands.size(); ++i) {
    if (std::holds_alternative<core::KeepAlive>(batch.commands[i].body)) {
      OnKeepAlive(batch.commands[i], applied.outcomes[i]);
    }
  }
  for (std::size_t i = 0; i < batch.commands.size(); ++i) {
    if (std::holds_alternative<core::Renew>(batch.commands[i].body)) {
      OnRenew(batch.commands[i], applied.outcomes[i]);
    }
  }
  for (const core::Event& event : applied.events) {
    OnEvent(event);
  }
  // An acquire that is queued and answered in one batch is both in the outcomes and in the
  // resolutions.
  for (std::size_t i = 0; i < batch.commands.size(); ++i) {
    if (!IsRenewal(batch.commands[i])) {
      OnOutcome(batch.commands[i], applied.outcomes[i]);
    }
  }
  for (const core::Resolution& resolution : applied.resolutions) {
    OnResolution(resolution);
  }
  if (std::string wrong = requests_.EndBatch(); !wrong.empty()) {
    Fail(wrong);
  }
  CheckOrder();
  CheckEnd(backlog);
  previous_ = now_;
  return violation_;
}

void HistoryChecker::Begin(const core::Batch& batch, const core::Applied& applied) {
  if (batch.time < now_ || batch.time - now_ > core::kTimeStepMax || batch.index <= index_) {
    Fail("I7: state time or the index jumps");
  }
  now_ = batch.time;
  index_ = batch.index;
  asked_ = Asked{};
  policies_before_.clear();
  new_leases_.clear();
  handed_over_.clear();
  for (auto& [id, waiter] : waiters_) {
    waiter.attached_before = waiter.attached;
    waiter.touched = false;
  }
  for (std::size_t i = 0; i < batch.commands.size(); ++i) {
    NoteCommand(batch.commands[i], applied.outcomes[i]);
  }
  requests_.BeginBatch(applied.resolutions, now_);
}

void HistoryChecker::NoteCommand(const core::Command& command, const core::Outcome& outcome) {
  if (const auto* start = std::get_if<core::EpochStart>(&command.body); start != nullptr) {
    last_epoch_ = now_;
    longest_grace_ = std::max(longest_grace_, start->grace);
    asked_.epoch = true;
    for (auto& [id, waiter] : waiters_) {
      waiter.attached = false;
    }
  } else if (const auto* release = std::get_if<core::Release>(&command.body); release != nullptr) {
    asked_.released.insert(release->lease_id);
  } else if (const auto* close = std::get_if<core::CloseSession>(&command.body); close != nullptr) {
    asked_.closed_sessions.insert(close->session_id);
  } else if (const auto* cancel = std::get_if<core::Cancel>(&command.body); cancel != nullptr) {
    asked_.cancelled_at.insert(Key(command.name_space, cancel->resource));
  } else if (const auto* acquire = std::get_if<core::Acquire>(&command.body); acquire != nullptr) {
    claims_.emplace(acquire->lease_id, acquire->session);
  } else if (std::holds_alternative<core::Break>(command.body)) {
    NoteBreak(command, outcome);
  } else if (const auto* change = std::get_if<core::ChangeNamespace>(&command.body);
             change != nullptr) {
    NoteNamespace(*change, outcome);
  } else if (const auto* opened = std::get_if<core::SessionOpened>(&outcome); opened != nullptr) {
    NoteSession(command.name_space, *opened);
  }
}

void HistoryChecker::NoteBreak(const core::Command& command, const core::Outcome& outcome) {
  const auto& stop = std::get<core::Break>(command.body);
  const auto* broken = std::get_if<core::Broken>(&outcome);
  if (broken == nullptr || broken->result != core::BreakResult::kEndedNow) {
    return;
  }
  asked_.broken_now.insert(Key(command.name_space, stop.resource));
  const bool fenced = PolicyOf(command.name_space).protection == core::Guarantee::kFenced;
  const bool policy_known = policies_before_.count(command.name_space) == 0;
  if (stop.dry_run || !stop.now || (policy_known && !fenced && !stop.unsafe)) {
    Fail("I7: a break ends a lease at once that must only be revoked");
  }
}

void HistoryChecker::NoteNamespace(const core::ChangeNamespace& command,
                                   const core::Outcome& outcome) {
  const auto* changed = std::get_if<core::NamespaceChanged>(&outcome);
  if (changed == nullptr || changed->result != core::NamespaceResult::kOk) {
    return;
  }
  NotePolicy(command.name, changed->policy);
  if (command.verb == core::NamespaceVerb::kDelete) {
    std::erase_if(delayed_until_,
                  [&](const auto& entry) { return entry.first.first == command.name; });
    requests_.OnNamespaceDeleted(command.name);
  }
}

void HistoryChecker::NoteSession(const std::string& name_space, const core::SessionOpened& opened) {
  const auto [at, is_new] = sessions_.try_emplace(opened.session_id);
  Session& session = at->second;
  session.promised = std::max(session.promised, now_ + opened.remaining);
  if (is_new) {
    session.name_space = name_space;
    session.ttl = opened.ttl;
    session.deadline = now_ + opened.remaining;
    session.renewed_at = now_;
  }
}

void HistoryChecker::NotePolicy(const std::string& name, const core::Policy& policy) {
  policies_before_.emplace(name, policies_[name]);
  policies_[name] = policy;
  for (auto& [key, lease] : current_) {
    if (key.first == name) {
      const bool none = lease.hold_max == Duration{} || policy.hold_max == Duration{};
      lease.hold_max = none ? Duration{} : std::max(lease.hold_max, policy.hold_max);
      const Duration shortest = lease.shortest_limit;
      if (policy.hold_max > Duration{} && (shortest == Duration{} || policy.hold_max < shortest)) {
        lease.shortest_limit = policy.hold_max;
      }
    }
  }
}

Timestamp HistoryChecker::Latest(Timestamp deadline, Timestamp renewed_at, Duration promise) const {
  const bool floored = last_epoch_.has_value() && *last_epoch_ >= renewed_at;
  return deadline + (floored ? std::min(promise, longest_grace_) : Duration{});
}

Timestamp HistoryChecker::Latest(const Lease& lease) const {
  if (IsZero(lease.session)) {
    return Latest(lease.deadline, lease.renewed_at, lease.promise);
  }
  const Session& session = sessions_.at(lease.session);
  const Timestamp session_end = Latest(session.deadline, session.renewed_at, session.ttl);
  if (!lease.provisional && !lease.revoking) {
    return session_end;
  }
  return std::min(session_end, Latest(lease.deadline, lease.renewed_at, lease.promise));
}

HistoryChecker::Lease* HistoryChecker::CurrentLease(const Key& resource, const Id128& id) {
  const auto found = current_.find(resource);
  return found == current_.end() || found->second.id != id ? nullptr : &found->second;
}

void HistoryChecker::OnKeepAlive(const core::Command& command, const core::Outcome& outcome) {
  const Id128& id = std::get<core::KeepAlive>(command.body).session_id;
  const auto* kept = std::get_if<core::SessionKept>(&outcome);
  const auto found = sessions_.find(id);
  if (kept == nullptr || !kept->alive) {
    if (found != sessions_.end() && found->second.name_space == command.name_space &&
        !found->second.over && found->second.promised >= previous_) {
      Fail("I7: a keepalive is refused before the session's promise is over");
    }
    return;
  }
  if (found == sessions_.end() || found->second.over) {
    return Fail("I4: a session that is over is kept alive");
  }
  Session& session = found->second;
  if (Latest(session.deadline, session.renewed_at, session.ttl) < previous_) {
    Fail("I7: a session is revived after its deadline");
  }
  session.promised = std::max(session.promised, now_ + kept->remaining);
  session.deadline = now_ + kept->remaining;
  session.renewed_at = now_;
}

void HistoryChecker::OnRenew(const core::Command& command, const core::Outcome& outcome) {
  const auto& renew = std::get<core::Renew>(command.body);
  const Key key(command.name_space, renew.resource);
  Lease* lease = CurrentLease(key, renew.lease_id);
  if (const auto* refused = std::get_if<core::NotRenewed>(&outcome); refused != nullptr) {
    if (lease != nullptr) {
      const bool reason =
          refused->cause == core::Cause::kRevoking || refused->cause == core::Cause::kHoldLimit;
      if (reason && refused->remaining > Duration{}) {
        lease->promised = std::max(lease->promised, now_ + refused->remaining);
      }
      const bool on_live_session =
          !IsZero(lease->session) && !lease->provisional && !lease->revoking &&
          sessions_.at(lease->session).promised >= now_ && !sessions_.at(lease->session).over;
      const bool promised = IsZero(lease->session) ? lease->promised >= now_ : on_live_session;
      if (!reason && promised && refused->remaining == Duration{}) {
        Fail("I7: a renewal of " + Named(key) + " is refused before its promise is over");
      }
    }
    return;
  }
  const auto* renewed = std::get_if<core::Renewed>(&outcome);
  if (renewed == nullptr) {
    return;
  }
  if (lease == nullptr) {
    return Fail("I4: a lease id that does not hold " + Named(key) + " is renewed");
  }
  if (Latest(*lease) < previous_) {
    Fail("I4: a lease of " + Named(key) + " is revived after its deadline");
  }
  if (lease->revoking) {
    Fail("I7: a lease of " + Named(key) + " is renewed while it is revoked");
  }
  const Duration hold_max = PolicyOf(key.first).hold_max;
  if (hold_max > Duration{} && policies_before_.count(key.first) == 0 &&
      lease->granted_at + hold_max < now_) {
    Fail("a lease of " + Named(key) + " is renewed after its maximum hold");
  }
  if (now_ + renewed->remaining < lease->deadline && IsZero(lease->session)) {
    Fail("I7: a renewal of " + Named(key) + " shortens its lease");
  }
  lease->promised = std::max(lease->promised, now_ + renewed->remaining);
  lease->deadline = now_ + renewed->remaining;
  lease->renewed_at = now_;
  lease->promise = lease->ttl;
  lease->provisional = false;
}

void HistoryChecker::OnEvent(const core::Event& event) {
  const Key key(event.name_space, event.resource);
  switch (event.kind) {
    case core::EventKind::kGranted:
      return OnGranted(event);
    case core::EventKind::kEnded:
      return OnEnded(event);
    case core::EventKind::kSessionEnded:
      return OnSessionEnded(event);
    case core::EventKind::kRevoking:
      if (Lease* lease = CurrentLease(key, event.capability); lease != nullptr) {
        // A second break changes nothing: the promise is that of the first.
        const bool frozen_before = std::exchange(lease->revoking, true);
        if (!IsZero(lease->session) && !lease->provisional && !frozen_before) {
          const Session& session = sessions_.at(lease->session);
          lease->deadline = session.deadline;
          lease->renewed_at = session.renewed_at;
          lease->promise = session.ttl;
          lease->promised = std::max(lease->promised, session.promised);
        }
      }
      return;
    case core::EventKind::kWaiting:
    case core::EventKind::kWaiterLeft:
    case core::EventKind::kProclaimed:
    case core::EventKind::kConfirmed:
    case core::EventKind::kSessionOpened:
      return;
  }
}

void HistoryChecker::OnGranted(const core::Event& event) {
  const Key key(event.name_space, event.resource);
  if (current_.count(key) != 0) {
    Fail("I1: " + Named(key) + " is granted while it is held");
    lease_at_.erase(current_[key].id);
  }
  if (event.token <= highest_token_ || event.token > core::kTokenMax) {
    Fail("I2: token " + std::to_string(event.token) + " of " + Named(key) + " after " +
         std::to_string(highest_token_));
  }
  if (past_.count(event.capability) != 0) {
    Fail("I4: a lease id of " + Named(key) + " is used again");
  }
  if (now_ <= blocked_until_) {
    Fail("I2: " + Named(key) + " is granted while a recovery blocks grants");
  }
  if (const auto delay = delayed_until_.find(key);
      delay != delayed_until_.end() && now_ <= delay->second) {
    Fail("the lock-delay of " + Named(key) + " is not kept");
  }
  delayed_until_.erase(key);
  highest_token_ = std::max(highest_token_, event.token);
  Lease& lease = current_[key];
  lease = Lease{};
  lease.id = event.capability;
  lease.token = event.token;
  lease.tenant = Key(event.name_space, event.principal);
  if (const auto claim = claims_.find(event.capability); claim != claims_.end()) {
    lease.session = claim->second;
  } else {
    Fail("I6: " + Named(key) + " is granted to a lease that nobody asked for");
  }
  lease.granted_at = now_;
  lease.renewed_at = now_;
  lease.deadline = now_;
  lease.hold_max = PolicyOf(key.first).hold_max;
  lease.shortest_limit = lease.hold_max;
  lease.provisional = event.cause == core::Cause::kHandedOver;
  lease_at_[lease.id] = key;
  new_leases_.insert(lease.id);
}

void HistoryChecker::OnEnded(const core::Event& event) {
  const Key key(event.name_space, event.resource);
  const auto found = current_.find(key);
  if (found == current_.end() || found->second.id != event.capability) {
    return Fail("I1: a lease of " + Named(key) + " ends that is not the current one");
  }
  const Lease lease = found->second;
  current_.erase(found);
  lease_at_.erase(lease.id);
  past_[lease.id] = Past{event.cause, index_};
  Timestamp promised = lease.promised;
  if (!IsZero(lease.session) && !lease.provisional && !lease.revoking) {
    // Once the maximum has passed, the session's keepalives may not count any more.
    const bool limited =
        lease.shortest_limit > Duration{} && lease.granted_at + lease.shortest_limit < now_;
    promised = limited ? promised : std::max(promised, sessions_.at(lease.session).promised);
  }
  const bool over = promised < now_;
  if (event.cause == core::Cause::kReleased) {
    if (asked_.released.count(lease.id) == 0) {
      Fail("I4: " + Named(key) + " is released by somebody else");
    }
    return;
  }
  if (event.cause == core::Cause::kSessionClosed) {
    if (IsZero(lease.session) || !sessions_.at(lease.session).closed) {
      Fail("I7: " + Named(key) + " ends with a session that was not closed");
    }
    return;
  }
  if (event.cause == core::Cause::kCancelled) {
    if (!lease.provisional || asked_.cancelled_at.count(key) == 0) {
      Fail("I7: a cancel ends a confirmed lease of " + Named(key));
    }
    return;
  }
  if (event.cause == core::Cause::kBroken && asked_.broken_now.count(key) != 0) {
    return;
  }
  if (!over) {
    Fail("I7: the lease of " + Named(key) + " ends before its promise, with " +
         core::CauseName(event.cause));
  }
  if (event.cause != core::Cause::kUnconfirmed) {
    delayed_until_[key] = promised + PolicyOf(key.first).lock_delay;
    if (policies_before_.count(key.first) != 0) {
      delayed_until_.erase(key);  // which policy it was is not known
    }
  }
}

void HistoryChecker::OnSessionEnded(const core::Event& event) {
  const auto found = sessions_.find(event.capability);
  if (found == sessions_.end() || found->second.over) {
    if (asked_.closed_sessions.count(event.capability) == 0) {
      Fail("a session ends that is not open");
    }
    return;
  }
  Session& session = found->second;
  session.over = true;
  session.closed = event.cause == core::Cause::kSessionClosed;
  if (session.closed ? asked_.closed_sessions.count(event.capability) == 0
                     : session.promised >= now_) {
    Fail("I7: a session ends before its promise");
  }
}

void HistoryChecker::OnOutcome(const core::Command& command, const core::Outcome& outcome) {
  const Duration memory = PolicyOf(command.name_space).request_memory;
  if (std::holds_alternative<core::Acquire>(command.body)) {
    OnAcquire(command, outcome);
  } else if (std::holds_alternative<core::Release>(command.body)) {
    OnRelease(command, outcome);
  } else if (std::holds_alternative<core::Cancel>(command.body)) {
    requests_.OnCancel(command, outcome, memory);
  } else if (std::holds_alternative<core::OpenSession>(command.body)) {
    if (std::string wrong = requests_.OnOpenSession(command, outcome, memory); !wrong.empty()) {
      Fail(wrong);
    }
  } else if (const auto* recover = std::get_if<core::RecoverState>(&command.body);
             recover != nullptr) {
    // Grants of this very batch came before: after it, nothing is granted at this time.
    highest_token_ = std::max(highest_token_, recover->token_floor);
    blocked_until_ = std::max(blocked_until_, now_ + recover->block);
  } else if (const auto* detach = std::get_if<core::Detach>(&command.body); detach != nullptr) {
    const auto found = waiters_.find(detach->waiter);
    if (found != waiters_.end() && found->second.attachment == detach->attachment) {
      found->second.attached = false;
      found->second.touched = true;
    }
  }
}

void HistoryChecker::OnAcquire(const core::Command& command, const core::Outcome& outcome) {
  const auto lookup = [&](const Id128& id) {
    const auto past = past_.find(id);
    const auto at = lease_at_.find(id);
    return RequestChecker::LeaseState{
        new_leases_.count(id) != 0, at != lease_at_.end() && current_[at->second].promised >= now_,
        past != past_.end() && past->second.index < index_};
  };
  const Duration memory = PolicyOf(command.name_space).request_memory;
  if (std::string wrong = requests_.OnAcquire(command, outcome, memory, lookup); !wrong.empty()) {
    Fail(wrong);
  }
  if (const auto* granted = std::get_if<core::Granted>(&outcome); granted != nullptr) {
    OnGrantAnswer(*granted);
  } else if (const auto* queued = std::get_if<core::Queued>(&outcome); queued != nullptr) {
    OnQueued(command, *queued);
  }
}

void HistoryChecker::OnQueued(const core::Command& command, const core::Queued& queued) {
  const auto& acquire = std::get<core::Acquire>(command.body);
  const auto [at, is_new] = waiters_.try_emplace(queued.waiter);
  Waiter& waiter = at->second;
  waiter.attachment = queued.attachment;
  waiter.attached = true;
  waiter.touched = true;
  if (!is_new) {
    return;
  }
  const Key key(command.name_space, acquire.resource);
  const core::Policy& policy = PolicyOf(command.name_space);
  waiter.resource = key;
  waiter.tenant = Key(command.name_space, command.principal);
  waiter.deadline = now_ + acquire.wait;
  queues_[key].insert(queued.waiter);
  const bool changed = policies_before_.count(command.name_space) != 0;
  if (!changed && queued.queue_length > policy.waiters_per_resource) {
    Fail("I9: the queue of " + Named(key) + " is longer than its limit");
  }
}

// The lease that an answer to its owner describes: what it may rely on from now on.
void HistoryChecker::OnGrantAnswer(const core::Granted& granted) {
  const auto at = lease_at_.find(granted.lease_id);
  if (at == lease_at_.end()) {
    return;  // granted and ended in one batch, or wrong: then the request checker has said so
  }
  Lease& lease = current_[at->second];
  if (granted.token != lease.token) {
    Fail("I2: the answer's token is not the token of the grant of " + Named(at->second));
  }
  lease.promised = std::max(lease.promised, now_ + granted.remaining);
  if (!lease.seen) {
    lease.seen = true;
    lease.ttl = granted.ttl;
    lease.promise =
        granted.provisional ? std::min(granted.ttl, core::kProvisionalMax) : granted.ttl;
    lease.deadline = now_ + lease.promise;  // its session may end before
    lease.renewed_at = now_;
    if (granted.remaining > lease.promise || granted.provisional != lease.provisional) {
      Fail("I7: the grant of " + Named(at->second) + " promises more than its ttl");
    }
    const auto session = sessions_.find(lease.session);
    if (!IsZero(lease.session) && (session == sessions_.end() || session->second.closed ||
                                   Latest(session->second.deadline, session->second.renewed_at,
                                          session->second.ttl) < now_)) {
      Fail("I7: " + Named(at->second) + " is granted on a session that is over");
    }
  }
}

void HistoryChecker::OnResolution(const core::Resolution& resolution) {
  const auto found = waiters_.find(resolution.waiter);
  if (found == waiters_.end()) {
    return Fail("I9: waiter " + std::to_string(resolution.waiter) +
                " is answered, but does not wait");
  }
  const Waiter waiter = found->second;
  waiters_.erase(found);
  queues_[waiter.resource].erase(resolution.waiter);
  if (resolution.attachment != waiter.attachment) {
    Fail("I9: a waiter of " + Named(waiter.resource) + " is answered at an old attachment");
  }
  const auto* granted = std::get_if<core::Granted>(&resolution.outcome);
  if (granted == nullptr) {
    return;
  }
  handed_over_.emplace_back(waiter.resource, resolution.waiter);
  if (!waiter.attached && !(waiter.touched && waiter.attached_before && !asked_.epoch)) {
    Fail("I9: a detached waiter of " + Named(waiter.resource) + " is granted");
  }
  if (waiter.deadline < now_) {
    Fail("I9: a waiter of " + Named(waiter.resource) + " is granted after its wait was over");
  }
  OnGrantAnswer(*granted);
}

void HistoryChecker::OnRelease(const core::Command& command, const core::Outcome& outcome) {
  const auto& release = std::get<core::Release>(command.body);
  const auto* released = std::get_if<core::Released>(&outcome);
  if (released == nullptr) {
    return;
  }
  const Key key(command.name_space, release.resource);
  const auto past = past_.find(release.lease_id);
  const bool ended_by_release = past != past_.end() && past->second.cause == core::Cause::kReleased;
  if (released->released && !ended_by_release) {
    Fail("I4: a lease id that was never released is answered as released at " + Named(key));
  }
  if (CurrentLease(key, release.lease_id) != nullptr) {
    Fail("I4: " + Named(key) + " is still held after its holder's release");
  }
}

// First come, first served: whoever is still in the queue before one that was granted must have
// been unable to take it.
void HistoryChecker::CheckOrder() {
  for (const auto& [key, granted] : handed_over_) {
    for (const core::WaiterId id : queues_[key]) {
      if (id >= granted) {
        break;
      }
      const Waiter& waiter = waiters_[id];
      if (waiter.attached && waiter.attached_before && !waiter.touched && !asked_.epoch) {
        Fail("I9: a later waiter of " + Named(key) + " is granted before an earlier one");
      }
    }
  }
}

void HistoryChecker::CheckEnd(bool backlog) {
  for (const Id128& id : new_leases_) {
    if (lease_at_.count(id) != 0 && !current_[lease_at_[id]].seen) {
      Fail("I9: a grant of " + Named(lease_at_[id]) + " is told to nobody");
    }
  }
  if (backlog) {
    return;
  }
  for (const auto& [key, lease] : current_) {
    Timestamp latest = Latest(lease);
    if (lease.hold_max > Duration{} && !IsZero(lease.session)) {
      const Timestamp frozen = lease.granted_at + lease.hold_max + core::kTimeStepMax;
      const Duration ttl = sessions_.at(lease.session).ttl;
      latest = std::min(latest, frozen + ttl + std::min(ttl, longest_grace_));
    }
    if (latest < now_) {
      Fail("I7: the lease of " + Named(key) + " outlives its deadline");
    }
    if (!IsZero(lease.session) && sessions_.at(lease.session).over) {
      Fail("I7: the hold of " + Named(key) + " outlives its session");
    }
  }
  for (const auto& [id, session] : sessions_) {
    if (!session.over && Latest(session.deadline, session.renewed_at, session.ttl) < now_) {
      Fail("I7: a session outlives its deadline");
    }
  }
}

}  // namespace holdfast::check
