// What each command does, in the naive model.
#include <algorithm>

#include "base/overloaded.h"
#include "tests/model/reference.h"

namespace holdfast::model {

using core::Cause;
using core::EventKind;
using core::RefusalCode;

namespace {

std::string ParametersOf(const core::Acquire& c) {
  std::string text = "acquire|" + c.resource + "|" + c.owner + "|" + std::to_string(c.ttl.count()) +
                     "|" + std::to_string(c.wait.count()) + "|" + ToHex(c.session);
  for (const core::MetadataEntry& entry : c.metadata) {
    text += "|" + entry.key + "=" + entry.value;
  }
  return text + (c.campaign ? "|campaign " + c.value : "");
}

std::string ParametersOf(const core::OpenSession& c) {
  return "session|" + c.owner + "|" + std::to_string(c.ttl.count());
}

Duration TtlOf(const core::Policy& policy, Duration asked) {
  return asked == Duration{} ? policy.ttl_default
                             : std::clamp(asked, policy.ttl_min, policy.ttl_max);
}

core::Refused Plain(RefusalCode code, Cause cause = Cause::kNone) {
  core::Refused refused;
  refused.code = code;
  refused.cause = cause;
  return refused;
}

}  // namespace

core::Outcome Reference::Run(const core::Command& command) {
  const Overloaded run{
      [&](const core::ChangeNamespace& c) -> core::Outcome { return Change(c); },
      [&](const core::Detach& c) -> core::Outcome {
        if (Waiter* waiter = WaiterOf(c.waiter);
            waiter != nullptr && waiter->attachment == c.attachment) {
          DetachOne(*waiter);
        }
        return core::Done{};
      },
      [&](const core::RecoverState& c) -> core::Outcome {
        last_token_ = std::max(last_token_, c.token_floor);
        blocked_until_ = std::max(blocked_until_, now_ + c.block);
        while (!waiters_.empty()) {
          Leave(waiters_.front().id, RefusalCode::kGrantsBlocked, Cause::kNone);
        }
        return core::Done{};
      },
      [&](const core::EpochStart&) -> core::Outcome { return core::Done{}; },
      [&](const auto&) -> core::Outcome { return RunNamed(command); },
  };
  return std::visit(run, command.body);
}

core::Outcome Reference::RunNamed(const core::Command& command) {
  const std::string& name_space = command.name_space;
  if (policies_.count(name_space) == 0) {
    return core::NoSuchNamespace{};
  }
  const Key tenant(name_space, command.principal);
  const Overloaded run{
      [&](const core::Acquire& c) { return Acquire(tenant, c); },
      [&](const core::Renew& c) { return Renew(name_space, c); },
      [&](const core::Release& c) { return Release(name_space, c); },
      [&](const core::Cancel& c) { return Cancel(tenant, c); },
      [&](const core::Break& c) { return Break(name_space, c); },
      [&](const core::Proclaim& c) { return Proclaim(name_space, c); },
      [&](const core::OpenSession& c) { return Open(tenant, c); },
      [&](const core::KeepAlive& c) { return Keep(name_space, c); },
      [&](const core::CloseSession& c) { return Close(name_space, c); },
      [&](const auto&) -> core::Outcome { return core::Done{}; },
  };
  return std::visit(run, command.body);
}

core::Outcome Reference::Acquire(const Key& tenant, const core::Acquire& c) {
  NoteClient(tenant, c.client);
  if (const Request* known = RequestOf(tenant, c.request_id); known != nullptr) {
    return Repeat(*known, c);
  }
  if (IsBelowWatermark(tenant, c.client)) {
    return Plain(RefusalCode::kEnded);
  }
  Request& request = Add(tenant, c.request_id, c.client);
  request.parameters = ParametersOf(c);
  request.canceller = c.resource + "|" + c.owner;
  return Decide(tenant, c);
}

// Remembers a refusal as the fate of its request.
core::Outcome Reference::Remember(const Key& tenant, const std::string& id, core::Refused refused) {
  Request& request = *RequestOf(tenant, id);
  request.fate = Fate::kRefused;
  request.code = refused.code;
  return refused;
}

core::Outcome Reference::Decide(const Key& tenant, const core::Acquire& c) {
  const Key at(tenant.first, c.resource);
  const core::Policy& policy = PolicyOf(at);
  const auto refuse = [&](core::Refused refused) {
    return Remember(tenant, c.request_id, std::move(refused));
  };
  if (policy.strict && policy.protection == core::Guarantee::kAdvisory) {
    return refuse(Plain(RefusalCode::kFencingRequired));
  }
  if (Blocked()) {
    return refuse(Refusal(RefusalCode::kGrantsBlocked, at, false));
  }
  const Session* session = SessionOf(tenant.first, c.session);
  if (!IsZero(c.session) && (session == nullptr || session->tenant != tenant || IsOver(*session))) {
    return refuse(Plain(RefusalCode::kSessionEnded));
  }
  Settle(at);
  const Lease* lease = LeaseAt(at);
  Waiter claim;
  claim.at = at;
  claim.tenant = tenant;
  claim.request_id = c.request_id;
  claim.owner = c.owner;
  claim.session = c.session;
  claim.lease_id = c.lease_id;
  claim.ttl = session == nullptr ? TtlOf(policy, c.ttl) : session->ttl;
  claim.queued_at = now_;
  claim.deadline = now_ + std::min(c.wait, policy.wait_max);
  claim.value = c.value;
  if (lease == nullptr && DelayAt(at) == nullptr) {
    if (HoldsOf(tenant) >= policy.holds_per_tenant) {
      return refuse(Refusal(RefusalCode::kTenantLimit, at, true));
    }
    const core::Granted granted = Grant(claim, Cause::kAcquired);
    RequestOf(tenant, c.request_id)->fate = Fate::kGranted;
    RequestOf(tenant, c.request_id)->capability = granted.lease_id;
    return granted;
  }
  if (session != nullptr && lease != nullptr && lease->session == c.session) {
    return refuse(Refusal(RefusalCode::kAlreadyHeld, at, true));
  }
  const auto waits_already = [&](const Waiter& w) { return w.at == at && w.session == c.session; };
  if (session != nullptr && std::any_of(waiters_.begin(), waiters_.end(), waits_already)) {
    return refuse(Refusal(RefusalCode::kAlreadyWaiting, at, true));
  }
  if (c.wait == Duration{}) {
    return refuse(Refusal(lease != nullptr ? RefusalCode::kHeld : RefusalCode::kDelayed, at, true));
  }
  if (QueueLength(at) >= policy.waiters_per_resource) {
    return refuse(Refusal(RefusalCode::kQueueFull, at, true));
  }
  const auto waiting = std::count_if(waiters_.begin(), waiters_.end(),
                                     [&](const Waiter& w) { return w.tenant == tenant; });
  if (static_cast<std::uint32_t>(waiting) >= policy.waiters_per_tenant) {
    core::Refused refused = Refusal(RefusalCode::kTenantLimit, at, true);
    refused.limit = "waiters_per_tenant=" + std::to_string(policy.waiters_per_tenant);
    return refuse(std::move(refused));
  }
  claim.id = ++last_waiter_;
  waiters_.push_back(claim);
  RequestOf(tenant, c.request_id)->fate = Fate::kWaiting;
  RequestOf(tenant, c.request_id)->waiter = claim.id;
  EmitWaiter(EventKind::kWaiting, Cause::kNone, claim);
  return core::Queued{claim.id, 1, static_cast<std::uint32_t>(QueueLength(at))};
}

core::Outcome Reference::Repeat(const Request& request, const core::Acquire& c) {
  const Key at(request.tenant.first, c.resource);
  if (!request.parameters.empty() && request.parameters != ParametersOf(c)) {
    return Plain(RefusalCode::kRequestIdReused);
  }
  const bool known_resource = std::any_of(history_.begin(), history_.end(),
                                          [&](const Transition& t) { return t.at == at; });
  switch (request.fate) {
    case Fate::kWaiting: {
      if (LeaveIfSessionOver(request.waiter)) {
        break;
      }
      Waiter& waiter = *WaiterOf(request.waiter);
      ++waiter.attachment;
      waiter.detach_at.reset();
      const core::Queued queued{waiter.id, waiter.attachment,
                                static_cast<std::uint32_t>(QueueLength(at))};
      Settle(at);
      if (WaiterOf(queued.waiter) != nullptr && LeaseAt(at) == nullptr && DelayAt(at) == nullptr) {
        HandOver(at);
      }
      return queued;
    }
    case Fate::kGranted:
      Settle(at);
      if (const Lease* lease = LeaseAt(at); lease != nullptr && lease->id == request.capability) {
        return Describe(*lease);
      }
      return Plain(RefusalCode::kEnded, HowItEnded(at, request.capability));
    case Fate::kCancelled:
      return Plain(RefusalCode::kCancelled);
    case Fate::kRefused:
    case Fate::kSession:
    case Fate::kUndecided:
      break;
  }
  return Refusal(request.code, at, known_resource);
}

core::Outcome Reference::Renew(const std::string& name_space, const core::Renew& c) {
  const Key at(name_space, c.resource);
  Lease* lease = LeaseAt(at);
  if (lease == nullptr || lease->id != c.lease_id) {
    return core::NotRenewed{HowItEnded(at, c.lease_id), {}, {}};
  }
  const End end = EndOf(*lease);
  if (end.at < previous_ || (!IsZero(lease->session) && IsOver(SessionOf(*lease)))) {
    return core::NotRenewed{end.cause, {}, {}};
  }
  const Duration left = std::max(end.at - now_, Duration{});
  if (lease->revoking) {
    return core::NotRenewed{Cause::kRevoking, left, lease->reason};
  }
  const Duration hold_max = PolicyOf(at).hold_max;
  if (lease->frozen || (hold_max > Duration{} && lease->granted_at + hold_max < now_)) {
    return core::NotRenewed{Cause::kHoldLimit, left, {}};
  }
  if (lease->provisional) {
    lease->provisional = false;
    Emit(EventKind::kConfirmed, Cause::kNone, *lease);
    if (!IsZero(lease->session) && hold_max > Duration{}) {
      lease->limit_at = lease->granted_at + hold_max;
    }
  }
  if (IsZero(lease->session)) {
    lease->deadline = std::max(end.at, now_ + lease->ttl);
    lease->promise = lease->ttl;
    lease->renewed_at = now_;
  }
  return core::Renewed{lease->ttl, EndOf(*lease).at - now_};
}

core::Outcome Reference::Release(const std::string& name_space, const core::Release& c) {
  const Key at(name_space, c.resource);
  Settle(at);
  const Lease* lease = LeaseAt(at);
  if (lease == nullptr || lease->id != c.lease_id) {
    const Cause cause = HowItEnded(at, c.lease_id);
    return core::Released{cause == Cause::kReleased, cause};
  }
  EndLease(at, End{now_, Cause::kReleased}, false);
  return core::Released{true, Cause::kReleased};
}

core::Outcome Reference::Cancel(const Key& tenant, const core::Cancel& c) {
  using core::CancelResult;
  NoteClient(tenant, c.client);
  const Request* known = RequestOf(tenant, c.request_id);
  if (known == nullptr) {
    if (IsBelowWatermark(tenant, c.client)) {
      return core::Cancelled{CancelResult::kAlreadyOver};
    }
    Request& request = Add(tenant, c.request_id, c.client);
    request.fate = Fate::kCancelled;
    request.canceller = c.resource + "|" + c.owner;
    return core::Cancelled{CancelResult::kBeforeArrival};
  }
  if (known->canceller != c.resource + "|" + c.owner || known->fate == Fate::kSession) {
    return core::Cancelled{CancelResult::kNotYours};
  }
  if (known->fate == Fate::kWaiting) {
    if (LeaveIfSessionOver(known->waiter)) {
      return core::Cancelled{CancelResult::kAlreadyOver};
    }
    Leave(known->waiter, RefusalCode::kCancelled, Cause::kCancelled);
    return core::Cancelled{CancelResult::kWaiterRemoved};
  }
  if (known->fate != Fate::kGranted) {
    return core::Cancelled{CancelResult::kAlreadyOver};
  }
  const Key at(tenant.first, c.resource);
  const Id128 id = known->capability;
  Settle(at);
  const Lease* lease = LeaseAt(at);
  if (lease == nullptr || lease->id != id) {
    return core::Cancelled{CancelResult::kAlreadyOver};
  }
  if (!lease->provisional) {
    return core::Cancelled{CancelResult::kStillGranted};
  }
  EndLease(at, End{now_, Cause::kCancelled}, false);
  return core::Cancelled{CancelResult::kProvisionalReleased};
}

core::Outcome Reference::Break(const std::string& name_space, const core::Break& c) {
  const Key at(name_space, c.resource);
  Settle(at);
  Lease* lease = LeaseAt(at);
  core::Broken broken;
  if (lease == nullptr) {
    return broken;
  }
  broken.holder = std::make_unique<core::HolderView>(HolderOf(*lease));
  for (const Waiter& waiter : waiters_) {
    if (waiter.at == at && !waiter.detach_at.has_value()) {
      broken.next_owner = waiter.owner;
      break;
    }
  }
  if (c.now && PolicyOf(at).protection != core::Guarantee::kFenced && !c.unsafe) {
    broken.result = core::BreakResult::kUnsafeRefused;
  } else if (c.dry_run) {
    broken.result = core::BreakResult::kWouldBreak;
  } else if (c.now) {
    broken.result = core::BreakResult::kEndedNow;
    lease->reason = c.reason;
    EndLease(at, End{now_, Cause::kBroken}, false);
  } else {
    broken.result = core::BreakResult::kRevoking;
    lease->reason = c.reason;
    Freeze(*lease);
    lease->revoking = true;
    Emit(EventKind::kRevoking, Cause::kBroken, *lease);
    out_->events.back().reason = c.reason;
  }
  return broken;
}

core::Outcome Reference::Proclaim(const std::string& name_space, const core::Proclaim& c) {
  const Key at(name_space, c.resource);
  Settle(at);
  Lease* lease = LeaseAt(at);
  if (lease == nullptr || lease->id != c.lease_id) {
    return core::Proclaimed{false, HowItEnded(at, c.lease_id)};
  }
  lease->value = c.value;
  Emit(EventKind::kProclaimed, Cause::kNone, *lease);
  return core::Proclaimed{true, Cause::kNone};
}

core::Outcome Reference::Open(const Key& tenant, const core::OpenSession& c) {
  using core::SessionRefusal;
  NoteClient(tenant, c.client);
  if (const Request* known = RequestOf(tenant, c.request_id); known != nullptr) {
    if (known->parameters != ParametersOf(c)) {
      return core::SessionRefused{SessionRefusal::kRequestIdReused, {}};
    }
    if (known->fate == Fate::kRefused) {
      return core::SessionRefused{known->code == RefusalCode::kGrantsBlocked
                                      ? SessionRefusal::kGrantsBlocked
                                      : SessionRefusal::kLimit,
                                  {}};
    }
    const Session* session = SessionOf(tenant.first, known->capability);
    if (IsOver(*session)) {
      return core::SessionRefused{SessionRefusal::kEnded, {}};
    }
    return core::SessionOpened{session->id, session->ttl, EndOf(*session) - now_};
  }
  if (IsBelowWatermark(tenant, c.client)) {
    return core::SessionRefused{SessionRefusal::kEnded, {}};
  }
  Request& request = Add(tenant, c.request_id, c.client);
  request.parameters = ParametersOf(c);
  request.fate = Fate::kRefused;
  if (Blocked()) {
    request.code = RefusalCode::kGrantsBlocked;
    return core::SessionRefused{SessionRefusal::kGrantsBlocked, {}};
  }
  const core::Policy& policy = PolicyOf(tenant);
  const auto alive = std::count_if(sessions_.begin(), sessions_.end(), [&](const Session& s) {
    return s.tenant == tenant && s.ended == Cause::kNone;
  });
  if (static_cast<std::uint32_t>(alive) >= policy.sessions_per_tenant) {
    request.code = RefusalCode::kTenantLimit;
    return core::SessionRefused{
        SessionRefusal::kLimit,
        "sessions_per_tenant=" + std::to_string(policy.sessions_per_tenant)};
  }
  request.fate = Fate::kSession;
  request.capability = c.session_id;
  const Duration ttl = TtlOf(policy, c.ttl);
  sessions_.push_back(Session{
      ++last_session_, c.session_id, tenant, c.owner, ttl, now_, now_ + ttl, Cause::kNone, {}});
  EmitSession(EventKind::kSessionOpened, Cause::kNone, sessions_.back());
  return core::SessionOpened{c.session_id, ttl, ttl};
}

core::Outcome Reference::Keep(const std::string& name_space, const core::KeepAlive& c) {
  Session* session = SessionOf(name_space, c.session_id);
  if (session == nullptr) {
    return core::SessionKept{false, {}, Cause::kNeverHeld, 0};
  }
  if (session->ended != Cause::kNone || EndOf(*session) < previous_) {
    const Cause cause = session->ended != Cause::kNone ? session->ended : Cause::kSessionExpired;
    return core::SessionKept{false, {}, cause, session->revocations};
  }
  session->deadline = std::max(EndOf(*session), now_ + session->ttl);
  session->renewed_at = now_;
  return core::SessionKept{true, session->deadline - now_, Cause::kNone, session->revocations};
}

core::Outcome Reference::Close(const std::string& name_space, const core::CloseSession& c) {
  Session* session = SessionOf(name_space, c.session_id);
  if (session == nullptr) {
    return core::SessionClosed{false, Cause::kNeverHeld};
  }
  if (session->ended == Cause::kNone) {
    EndSession(*session, Cause::kSessionClosed, now_);
  }
  return core::SessionClosed{session->ended == Cause::kSessionClosed, session->ended};
}

core::Outcome Reference::Change(const core::ChangeNamespace& c) {
  const auto found = policies_.find(c.name);
  if (c.verb == core::NamespaceVerb::kCreate) {
    if (found != policies_.end()) {
      return core::NamespaceChanged{core::NamespaceResult::kExists, found->second};
    }
    return core::NamespaceChanged{core::NamespaceResult::kOk,
                                  policies_[c.name] = core::Patched(core::Policy{}, c.patch)};
  }
  found->second = core::Patched(found->second, c.patch);
  return core::NamespaceChanged{core::NamespaceResult::kOk, found->second};
}

void Reference::DetachOne(Waiter& waiter) {
  if (!waiter.detach_at.has_value()) {
    waiter.detach_at = now_ + PolicyOf(waiter.at).detach_grace;
  }
}

void Reference::NoteClient(const Key& tenant, const core::ClientContext& said) {
  if (said.client_id.empty()) {
    return;
  }
  auto client = std::find_if(clients_.begin(), clients_.end(), [&](const Client& c) {
    return c.tenant == tenant && c.id == said.client_id;
  });
  if (client == clients_.end()) {
    client = clients_.insert(client, Client{tenant, said.client_id, 0, {}});
  }
  client->expires_at = now_ + PolicyOf(tenant).request_memory;
  client->watermark = std::max(client->watermark, said.answered_below);
  for (auto request = requests_.begin(); request != requests_.end();) {
    if (request->tenant != tenant || request->client != said.client_id) {
      ++request;
    } else if (request->sequence >= client->watermark) {
      return;
    } else if (request->fate == Fate::kWaiting) {
      (request++)->client.clear();
    } else {
      request = requests_.erase(request);
    }
  }
}

bool Reference::IsBelowWatermark(const Key& tenant, const core::ClientContext& said) const {
  return std::any_of(clients_.begin(), clients_.end(), [&](const Client& client) {
    return client.tenant == tenant && client.id == said.client_id &&
           said.sequence < client.watermark;
  });
}

Reference::Request& Reference::Add(const Key& tenant, const std::string& id,
                                   const core::ClientContext& said) {
  Request request;
  request.tenant = tenant;
  request.id = id;
  request.expires_at = now_ + PolicyOf(tenant).request_memory;
  request.client = said.client_id;
  request.sequence = said.sequence;
  requests_.push_back(request);
  return requests_.back();
}

Cause Reference::HowItEnded(const Key& at, const Id128& lease_id) const {
  for (auto past = history_.rbegin(); past != history_.rend(); ++past) {
    if (past->at == at && past->lease_id == lease_id) {
      return past->cause;
    }
  }
  return Cause::kNeverHeld;
}

Reference::Lease* Reference::LeaseAt(const Key& at) {
  const auto found = std::find_if(leases_.begin(), leases_.end(),
                                  [&](const Lease& lease) { return lease.at == at; });
  return found == leases_.end() ? nullptr : &*found;
}

Reference::Delay* Reference::DelayAt(const Key& at) {
  const auto found = std::find_if(delays_.begin(), delays_.end(),
                                  [&](const Delay& delay) { return delay.at == at; });
  return found == delays_.end() ? nullptr : &*found;
}

Reference::Session* Reference::SessionOf(const std::string& name_space, const Id128& id) {
  const auto found = std::find_if(sessions_.begin(), sessions_.end(), [&](const Session& s) {
    return s.id == id && s.tenant.first == name_space;
  });
  return found == sessions_.end() ? nullptr : &*found;
}

const Reference::Session& Reference::SessionOf(const Lease& lease) const {
  return *std::find_if(sessions_.begin(), sessions_.end(),
                       [&](const Session& s) { return s.id == lease.session; });
}

Reference::Waiter* Reference::WaiterOf(core::WaiterId id) {
  const auto found = std::find_if(waiters_.begin(), waiters_.end(),
                                  [&](const Waiter& waiter) { return waiter.id == id; });
  return found == waiters_.end() ? nullptr : &*found;
}

Reference::Request* Reference::RequestOf(const Key& tenant, const std::string& id) {
  const auto found = std::find_if(requests_.begin(), requests_.end(), [&](const Request& r) {
    return r.tenant == tenant && r.id == id;
  });
  return found == requests_.end() ? nullptr : &*found;
}

std::size_t Reference::QueueLength(const Key& at) const {
  return static_cast<std::size_t>(
      std::count_if(waiters_.begin(), waiters_.end(), [&](const Waiter& w) { return w.at == at; }));
}

std::size_t Reference::HoldsOf(const Key& tenant) const {
  return static_cast<std::size_t>(std::count_if(
      leases_.begin(), leases_.end(), [&](const Lease& lease) { return lease.tenant == tenant; }));
}

}  // namespace holdfast::model
