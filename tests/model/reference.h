// A naive model of the core: lists and linear scans, written from docs/SEMANTICS.md and not from
// the core. It answers the same batches with the same outcomes, late answers and events, in the
// same order. Slow on purpose; it knows no limits of tables and no backlog, so keep what is due in
// one batch below kDuePerBatchMax.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "core/command.h"
#include "core/event.h"
#include "core/outcome.h"
#include "core/view.h"

namespace holdfast::model {

class Reference {
 public:
  Reference() { policies_["default"] = core::Policy{}; }

  void Apply(const core::Batch& batch, core::Applied& out);
  core::ResourceView Describe(const std::string& name_space, const std::string& resource) const;
  core::SessionView DescribeSession(const std::string& name_space, const Id128& id) const;
  // Holds, waiters, live sessions, request ids, last token.
  core::CountsView Counts() const;

 private:
  using Key =
      std::pair<std::string, std::string>;  // namespace and resource, or namespace and principal
  struct Session {
    std::uint64_t number = 0;
    Id128 id{};
    Key tenant;
    std::string owner;
    Duration ttl{};
    Timestamp renewed_at{};
    Timestamp deadline{};
    core::Cause ended = core::Cause::kNone;
    Timestamp ended_at{};
    std::uint64_t revocations = 0;
  };
  struct Lease {
    Key at;
    Key tenant;
    Id128 id{};
    core::Token token = 0;
    std::string owner;
    Id128 session{};
    Duration ttl{};
    Duration promise{};
    Timestamp granted_at{};
    Timestamp renewed_at{};
    Timestamp deadline{};
    std::optional<Timestamp> limit_at;  // on a session: when the maximum hold is looked at
    bool provisional = false;
    bool revoking = false;
    bool frozen = false;
    std::string reason;
    std::string value;
  };
  struct Waiter {
    core::WaiterId id = 0;
    Key at;
    Key tenant;
    std::string request_id;
    std::string owner;
    Id128 session{};
    Id128 lease_id{};
    Duration ttl{};
    Timestamp queued_at{};
    Timestamp deadline{};
    std::uint64_t attachment = 1;
    std::optional<Timestamp> detach_at;
    std::string value;
  };
  struct Delay {
    Key at;
    Timestamp until{};
    core::Token token = 0;
  };
  struct Transition {
    Key at;
    Id128 lease_id{};
    core::Cause cause = core::Cause::kNone;
    core::Token token = 0;
    std::string owner;
    std::string reason;
  };
  enum class Fate { kUndecided, kWaiting, kGranted, kRefused, kCancelled, kSession };
  struct Request {
    Key tenant;
    std::string id;
    std::string parameters;  // empty: cancelled before it arrived
    std::string canceller;
    Fate fate = Fate::kUndecided;
    core::RefusalCode code = core::RefusalCode::kNone;
    Id128 capability{};
    core::WaiterId waiter = 0;
    Timestamp expires_at{};
    std::string client;  // empty: none
    std::uint64_t sequence = 0;
  };
  struct Client {
    Key tenant;
    std::string id;
    std::uint64_t watermark = 0;
    Timestamp expires_at{};
  };
  struct End {
    Timestamp at{};
    core::Cause cause = core::Cause::kNone;
  };
  struct Start {
    Timestamp at{};
    Duration grace{};
  };

  // reference.cc: time, leases, queues
  Timestamp Floored(Timestamp deadline, Timestamp renewed_at, Duration promise) const;
  Timestamp EndOf(const Session& session) const;
  End EndOf(const Lease& lease) const;
  bool IsOver(const Session& session) const {
    return session.ended != core::Cause::kNone || EndOf(session) < now_;
  }
  void RunDue();
  std::optional<std::pair<int, std::uint64_t>> FirstDue() const;
  void RunDue(int kind, std::uint64_t number);
  void RunLimit(Lease& lease);
  void Forget();
  void DrainSessions();
  void EndSession(Session& session, core::Cause cause, Timestamp at);
  void Settle(const Key& at);
  core::Granted Grant(const Waiter& claim, core::Cause cause);
  core::Granted Describe(const Lease& lease) const;
  void EndLease(const Key& at, End end, bool delay);
  void HandOver(const Key& at);
  void Freeze(Lease& lease);
  void Leave(core::WaiterId id, core::RefusalCode code, core::Cause cause);
  bool LeaveIfSessionOver(core::WaiterId id);
  core::Refused Refusal(core::RefusalCode code, const Key& at, bool with_resource) const;
  bool OnEndedSession(const Lease& lease) const;

  // reference_commands.cc
  core::Outcome Run(const core::Command& command);
  core::Outcome RunNamed(const core::Command& command);
  core::Outcome Acquire(const Key& tenant, const core::Acquire& c);
  core::Outcome Decide(const Key& tenant, const core::Acquire& c);
  core::Outcome Repeat(const Request& request, const core::Acquire& c);
  core::Outcome Remember(const Key& tenant, const std::string& id, core::Refused refused);
  core::Outcome Renew(const std::string& name_space, const core::Renew& c);
  core::Outcome Release(const std::string& name_space, const core::Release& c);
  core::Outcome Cancel(const Key& tenant, const core::Cancel& c);
  core::Outcome Break(const std::string& name_space, const core::Break& c);
  core::Outcome Proclaim(const std::string& name_space, const core::Proclaim& c);
  core::Outcome Open(const Key& tenant, const core::OpenSession& c);
  core::Outcome Keep(const std::string& name_space, const core::KeepAlive& c);
  core::Outcome Close(const std::string& name_space, const core::CloseSession& c);
  core::Outcome Change(const core::ChangeNamespace& c);
  void DetachOne(Waiter& waiter);
  void NoteClient(const Key& tenant, const core::ClientContext& said);
  bool IsBelowWatermark(const Key& tenant, const core::ClientContext& said) const;
  Request& Add(const Key& tenant, const std::string& id, const core::ClientContext& said);
  core::Cause HowItEnded(const Key& at, const Id128& lease_id) const;
  core::HolderView HolderOf(const Lease& lease) const;

  Lease* LeaseAt(const Key& at);
  const Lease* LeaseAt(const Key& at) const { return const_cast<Reference*>(this)->LeaseAt(at); }
  Delay* DelayAt(const Key& at);
  const Delay* DelayAt(const Key& at) const { return const_cast<Reference*>(this)->DelayAt(at); }
  Session* SessionOf(const std::string& name_space, const Id128& id);
  const Session& SessionOf(const Lease& lease) const;
  Waiter* WaiterOf(core::WaiterId id);
  Request* RequestOf(const Key& tenant, const std::string& id);
  const core::Policy& PolicyOf(const Key& key) const { return policies_.at(key.first); }
  std::size_t QueueLength(const Key& at) const;
  std::size_t HoldsOf(const Key& tenant) const;
  bool Blocked() const { return now_ <= blocked_until_; }
  void Emit(core::EventKind kind, core::Cause cause, const Lease& lease);
  void EmitWaiter(core::EventKind kind, core::Cause cause, const Waiter& waiter);
  void EmitSession(core::EventKind kind, core::Cause cause, const Session& session);

  Timestamp now_{};
  Timestamp previous_{};
  core::Applied* out_ = nullptr;
  std::map<std::string, core::Policy> policies_;
  std::vector<Start> starts_;
  std::list<Session> sessions_;
  std::list<Session*> draining_;
  std::list<Lease> leases_;    // in order of grants
  std::list<Waiter> waiters_;  // in log order
  std::list<Delay> delays_;
  std::vector<Transition> history_;
  std::list<Request> requests_;  // in order of arrival
  std::list<Client> clients_;
  core::Token last_token_ = 0;
  core::WaiterId last_waiter_ = 0;
  std::uint64_t last_session_ = 0;
  Timestamp blocked_until_ = Timestamp::min();
};

}  // namespace holdfast::model
